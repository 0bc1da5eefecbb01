import difflib, re
def test_x(browser):
    import tests.console.test_pages as t
    bad = 0
    for _ in range(25):
        part=t.without_times(t.fragment(browser,"/","div#overview").text).strip()
        page=t.without_times(browser.get("/").text)
        if part not in page:
            bad += 1
            pl=page.splitlines()
            for l in part.splitlines():
                if l.strip() and not any(l.strip()==q.strip() for q in pl): print("ONLY IN PART:", l[:300])
            import re as r
            for key in ("per second","/s","disk","bytes"):
                pass
    print("bad", bad)
    assert not bad
