"""What the benchmark makes of its samples and targets; no timing is asserted anywhere."""

import json

from bench import medians, report
from bench.figures import Check, Figure, Run, figure_of, middle_of, quantile
from bench.line import QUICK
from bench.lines import LINES
from bench.load import Sample


def run(messages: int, seconds: float, cpu_s: float, *latencies_s: float) -> Run:
    return Run(Sample(messages, seconds, list(latencies_s)), cpu_s)


def test_a_figure_is_the_median_of_its_runs_each_kind_for_itself():
    runs = [run(100, 1.0, 0.3), run(300, 1.0, 0.3), run(200, 1.0, 0.4)]
    figure = figure_of("ours", runs, 7.0)
    assert figure.rate == 200
    assert round(figure.broker_us) == 2000
    assert figure.p50_us is None
    assert figure.delay_ms == 7.0


def test_of_several_figures_the_median_of_each_kind_counts_and_the_worst_delay():
    figures = [
        Figure("ours", p99_us=30, wall_s=1, delay_ms=2),
        Figure("ours", p99_us=10, wall_s=3, delay_ms=9),
        Figure("ours", p99_us=20, wall_s=2, delay_ms=None),
    ]
    assert middle_of(figures) == Figure("ours", p99_us=20, wall_s=2, delay_ms=9)


def test_latencies_become_microseconds():
    figure = figure_of("ours", [run(3, 1.0, 0.1, 0.003, 0.001, 0.002)], None)
    assert (round(figure.p50_us), round(figure.p99_us)) == (2000, 3000)


def test_a_quantile_of_one_value_is_that_value():
    assert quantile([5.0], 0.99) == 5.0


def test_a_target_at_most_is_missed_above_it():
    check = Check("ours", "broker_us", 2.5)
    assert check.verdict("line", [Figure("ours", broker_us=2.5)]).is_met is True
    assert check.verdict("line", [Figure("ours", broker_us=2.6)]).is_met is False


def test_a_target_beside_a_peer_is_its_ratio():
    check = Check("ours", "rate", 0.8, is_most=False, peer="theirs")
    verdict = check.verdict("line", [Figure("ours", rate=90.0), Figure("theirs", rate=100.0)])
    assert (verdict.ratio, verdict.is_met) == (0.9, True)


def test_a_target_beside_a_peer_that_is_not_installed_is_not_measured():
    check = Check("ours", "rate", 0.8, is_most=False, peer="theirs")
    assert check.verdict("line", [Figure("ours", rate=90.0)]).is_met is None


def test_a_section_is_printed_under_its_heading_and_all_else_stays(tmp_path, monkeypatch):
    page = tmp_path / "benchmarks.md"
    (name, heading), latest = next(iter(report.SECTIONS.items())), report.LATEST
    page.write_text(f"# Benchmarks\n\n{heading}\n\nold\n\n{latest}\n\nkept\n")
    monkeypatch.setattr(report, "DOCUMENT", page)
    line = next(each for each in LINES if each.name == name)
    measured = [(line, [Figure("/topics", p50_us=20.0, page_cpu_ms=12.5, size_kib=8.0)])]
    report.publish("on a machine", measured, report.verdicts_of(measured), "a command", name)
    text = page.read_text()
    start = f"# Benchmarks\n\n{heading}\n\nPrinted by `a command`:\n\non a machine\n\n|"
    assert text.startswith(start)
    assert text.endswith(f"\n\n{latest}\n\nkept\n")
    assert "| console | /topics |  | 20 |" in text
    assert "12.5 ms of processor, 8.0 KiB |" in text
    assert "old" not in text


def one_stored(cpu_us: float, peer_us: float) -> report.Measured:
    (line,) = (each for each in LINES if each.name == "one-stored")
    ours = [Figure(f"KiteMQ {door}", broker_us=cpu_us) for door in ("WebSocket", "REST")]
    return [(line, [*ours, Figure("NATS JetStream", broker_us=peer_us)])]


def test_of_three_results_each_target_has_the_ratio_of_the_run_in_the_middle():
    runs = [one_stored(80, 100), one_stored(60, 30), one_stored(50, 50)]
    [(line, figures)] = medians.middle(runs)
    assert [each.broker_us for each in figures] == [60, 60, 50]
    verdicts = medians.middle_verdicts(runs)
    ratios = {each.broker: each.ratio for each in verdicts if "broker us" in each.target}
    assert ratios == {"KiteMQ WebSocket": 1.0, "KiteMQ REST": 1.0}
    assert all(each.line in (line.name, "all") for each in verdicts)


def test_a_line_that_only_some_results_have_counts_as_in_those():
    line = LINES[0]
    with_it: report.Measured = [(line, [Figure("ours", rate=1)]), *one_stored(1, 1)]
    measured = medians.middle([one_stored(1, 1), with_it, one_stored(1, 1)])
    assert [each.name for each, _ in measured] == [line.name, "one-stored"]
    assert measured[0][1][0].rate == 1
    verdicts = medians.middle_verdicts([one_stored(1, 1), with_it, one_stored(1, 1)])
    assert {each.line for each in verdicts} == {line.name, "one-stored", "all"}


def test_a_result_is_read_again_as_it_was_measured():
    measured = [(LINES[0], [Figure("ours", rate=1.5, rates=(1.0, 2.0))])]
    result = report.document({}, QUICK, measured, {}, report.verdicts_of(measured))
    assert medians.figures_of(json.loads(json.dumps(result))) == measured
    assert medians.unknown_lines([result, {"lines": [{"name": "gone"}]}]) == {"gone"}
