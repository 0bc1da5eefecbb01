"""Groups that skipped a message because of their members' filters."""

from app.pause import Pause
from app.ui.framework.console import Console
from engine.broker import Journey, StageOutcome
from engine.errors import EngineError

ALL_TAGS = "*"
NO_TAGS = "SQL92:"


async def filtered_out(console: Console, journey: Journey) -> frozenset[str]:
    """The groups that skipped the message and whose members' filters all exclude its tag."""
    groups = []
    pause = Pause()
    for stage in journey.stages:
        if stage.outcome is not StageOutcome.PASSED or stage.offset is None:
            continue
        try:
            record = await console.messaging.message(stage.topic, stage.queue, stage.offset)
            members = await console.administration.members.of(stage.group)
        except EngineError:
            continue
        expressions = [each.topics[stage.topic] for each in members if stage.topic in each.topics]
        if expressions and all(is_filtered(record.tag, each) for each in expressions):
            groups.append(stage.group)
        await pause.when_due()
    return frozenset(groups)


def is_filtered(tag: str, expression: str) -> bool:
    """Whether a tag filter excludes this tag; SQL92 filters are not evaluated here."""
    if expression.strip() in ("", ALL_TAGS) or expression.strip().upper().startswith(NO_TAGS):
        return False
    return tag not in {each.strip() for each in expression.split("||")}
