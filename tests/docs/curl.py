"""A `curl` for the pages' examples where there is none: the few options they use, over httpx.

An option that is not listed here fails, so a page cannot lean on what this does not understand;
so does an answer with a status of 400 and more, because no example shows a mistake.
"""

import argparse
import sys

import httpx


def main() -> int:
    """Do one request as curl --fail-with-body would: 0, or 22 for a status of 400 and more."""
    asked = parse(sys.argv[1:])
    body = asked.data if asked.data is not None else asked.data_binary
    headers = [tuple(part.strip() for part in line.split(":", 1)) for line in asked.header]
    method = asked.request or ("POST" if body is not None else "GET")
    names = {name.lower() for name, _ in headers}
    if body is not None and "content-type" not in names:
        headers.append(("Content-Type", "application/x-www-form-urlencoded"))
    answer = httpx.request(
        method,
        asked.url,
        headers=headers,
        content=body,
        timeout=60,
        trust_env=False,
    )
    if asked.include:
        sys.stdout.write(f"HTTP/1.1 {answer.status_code} {answer.reason_phrase}\r\n\r\n")
    sys.stdout.write(answer.text)
    return 22 if answer.status_code >= 400 else 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="curl", allow_abbrev=False)
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-S", "--show-error", action="store_true")
    parser.add_argument("-f", "--fail", action="store_true")
    parser.add_argument("-i", "--include", action="store_true")
    parser.add_argument("-X", "--request", default="")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data")
    parser.add_argument("--data-binary")
    parser.add_argument("url")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
