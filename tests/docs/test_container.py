"""What the container file says holds, as far as that can be tried without a container."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.process import free_port
from tests.docs.pages import ROOT, own_files
from tests.patience import until

BUILD_TOOLS = re.compile(r"\b(gcc|g\+\+|make|build-essential|apt-get|pip install|cargo)\b")
START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile, its continued lines joined."""

    word: str
    text: str

    @property
    def arguments(self) -> list[str]:
        """The words of its exec form."""
        return [str(item) for item in json.loads(self.text)]


def stages() -> list[list[Instruction]]:
    """The instructions of each stage; those before the first FROM belong to none."""
    text = (ROOT / "Dockerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found: list[list[Instruction]] = []
    for line in re.sub(r"\\\n\s*", " ", lines).splitlines():
        if not line.strip():
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(word, rest.strip()))
    return found


def final(word: str) -> Instruction:
    """The one instruction of that word in the stage that becomes the image."""
    matching = [instruction for instruction in stages()[-1] if instruction.word == word]
    assert len(matching) == 1, f"{word} stands {len(matching)} times"
    return matching[0]


def in_context(name: str) -> bool:
    """Whether .dockerignore sends a file to the builder."""
    top = name.partition("/")[0]
    return f"!{top}" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_image_is_built_in_two_stages_from_bases_with_a_version() -> None:
    bases = [stage[0].text for stage in stages()]
    assert len(bases) == 2
    assert bases[0].endswith(" AS build")
    for base in bases:
        assert re.match(r"python:\$\{PYTHON\}-slim-[a-z]+( AS build)?$", base)
    assert re.search(r"^ARG PYTHON=3\.\d+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_the_image_holds_no_build_tools_and_nothing_of_the_sources() -> None:
    for instruction in stages()[-1]:
        assert not BUILD_TOOLS.search(instruction.text), instruction
    assert final("COPY").text == "--from=build /opt/kitemq /opt/kitemq"
    assert "pip uninstall --yes setuptools pip" in stages()[0][-1].text
    assert "pip uninstall --yes" in final("RUN").text


def test_every_download_of_the_image_is_a_wheel_checked_by_its_hash() -> None:
    commands = " ".join(item.text for item in stages()[0] if item.word == "RUN")
    for command in re.findall(r"pip install ([^&;]+)", commands):
        checked = "--require-hashes" in command and "--only-binary :all:" in command
        assert checked or command.split() == ["--no-deps", "--no-build-isolation", "./kitemq", "."]


def test_the_server_runs_as_an_unprivileged_user_that_owns_its_volume() -> None:
    user, _, group = final("USER").text.partition(":")
    assert int(user) == int(group) > 1000
    created = final("RUN").text
    assert f"useradd --system --uid {user} " in created
    assert final("VOLUME").arguments == ["/data"]
    assert re.search(
        r"install --directory --owner=kitemq --group=kitemq --mode=0700 /data", created
    )
    words = [item.word for item in stages()[-1]]
    assert words.index("RUN") < words.index("USER") < words.index("VOLUME")


def test_processes_start_without_a_shell_so_that_signals_reach_the_server() -> None:
    assert final("ENTRYPOINT").arguments == ["kitemq", "serve"]
    assert final("CMD").arguments[:2] == ["--data", "/data"]
    assert final("STOPSIGNAL").text == "SIGTERM"
    assert re.search(r' CMD \["python", "-c", ', final("HEALTHCHECK").text)


def test_the_builder_is_sent_what_it_copies_and_no_private_file() -> None:
    for stage in stages():
        for item in stage:
            if item.word == "COPY" and not item.text.startswith("--from"):
                for source in item.text.split()[:-1]:
                    assert source == "." or (in_context(source) and (ROOT / source).exists())
    for name in (".git", ".venv", "data", "data-demo", "tests", ".env"):
        assert not in_context(name)
    packages = {line.partition("/")[0] for line in packed_folders()}
    assert all(in_context(name) for name in packages)


def packed_folders() -> list[str]:
    """The packages that setuptools packs."""
    text = (ROOT / "pyproject.toml").read_text()
    section = text.partition("[tool.setuptools.packages.find]")[2].partition("]")[0]
    return re.findall(r'"(\w+)"', section)


def test_the_page_names_the_ports_the_user_and_the_arguments_of_the_image() -> None:
    page = (ROOT / "docs" / "container.md").read_text()
    for port in final("EXPOSE").text.split():
        assert f"127.0.0.1:{port}:{port}" in page
    assert final("USER").text.partition(":")[0] in page
    assert " ".join(final("CMD").arguments) in page


def test_hosted_ci_calls_what_people_call() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.search(r"^ +- run: \.ci/run$", workflow, re.MULTILINE)
    assert re.search(r"^permissions:\n  contents: read$", workflow, re.MULTILINE)
    assert len(re.findall(r"\brun: ", workflow)) == 1
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.slow
def test_what_the_image_installs_serves_and_passes_its_own_health_check(tmp_path: Path) -> None:
    """The build's last installation and the image's own words, beside a volume of this test."""
    context = tmp_path / "context"
    for path in own_files():
        name = path.relative_to(ROOT).as_posix()
        if in_context(name):
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, context / name)
    site = tmp_path / "site"
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *options, "."], cwd=context, check=True, timeout=120)
    port = free_port()
    changed = {"/data": str(tmp_path / "data"), "0.0.0.0": "127.0.0.1", "8080": str(port)}
    words = [changed.get(word, word) for word in final("CMD").arguments]
    assert final("ENTRYPOINT").arguments[0] == "kitemq"
    # The installed copy comes first: an editable one of this checkout would hide a missing file.
    start = f"import sys; sys.path.insert(0, {str(site)!r}); from kitemq.cli import main; "
    start += "import app; assert app.__file__.startswith(sys.path[0]); sys.exit(main())"
    command = [sys.executable, "-c", start, *final("ENTRYPOINT").arguments[1:], *words]
    environment = {name: value for name, value in os.environ.items() if "KITEMQ" not in name}
    environment |= {"KITEMQ_GRPC_LISTEN": "off", "KITEMQ_ADMIN_PASSWORD": "a password of a test"}
    server = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        check = shlex.split(health_check().replace("8080", str(port)))
        python = [sys.executable, *check[1:]]
        until(
            lambda: subprocess.run(python, check=False, capture_output=True).returncode == 0,
            "the health check never passed",
            START_TIMEOUT_S,
        )
        server.send_signal(signal.SIGTERM)
        assert server.wait(START_TIMEOUT_S) == 0
    finally:
        server.kill()
        server.wait()


def health_check() -> str:
    """The health check's command, in words of a shell."""
    text = final("HEALTHCHECK").text
    return shlex.join(json.loads(text[text.index("[") :]))
