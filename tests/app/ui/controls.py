"""What of a page changes something: forms, their buttons, and links that look like buttons."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

HANDLERS = {
    "form": "_form_",
    "fieldset": "_fieldset",
    "button": "_button",
    "a": "_a",
    "input": "_input",
    "textarea": "_textarea",
    "select": "_select_",
    "option": "_option",
}
VOID = frozenset({"input", "br", "img", "link", "meta", "col", "hr"})


@dataclass
class Button:
    """A button, and the ids of what describes it; a fieldset's count for all that it holds."""

    is_disabled: bool
    described_by: tuple[str, ...]
    name: str = ""
    value: str = ""


@dataclass
class PostForm:
    """A form that changes something, with what its fields hold as a browser would send it."""

    action: str
    confirm: str
    id: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[Button] = field(default_factory=list)

    def sent(self) -> dict[str, str]:
        """The fields as a person would send them: with the name typed that has to be typed."""
        sent = dict(self.fields)
        if self.confirm:
            sent["confirm"] = self.confirm
        if self.buttons and self.buttons[0].name:
            sent[self.buttons[0].name] = self.buttons[0].value
        return sent


class Controls(HTMLParser):
    """The controls of one page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[PostForm] = []
        self.buttons: list[Button] = []  # of no form
        self.links: list[str] = []  # that look like buttons, or open a dialog
        self.asks: list[tuple[str, Button]] = []  # of forms that only go to another page
        self.texts: dict[str, str] = {}  # by the id of the element
        self.notes: list[str] = []  # ids of reasons
        self._form: PostForm | None = None
        self._goes_to: str | None = None
        self._fenced: list[tuple[str, ...] | None] = []
        self._open: list[tuple[str, str]] = []  # tag and id
        self._select = self._area = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            self._open.append((tag, values.get("id", "")))
            if values.get("id"):
                self.texts.setdefault(values["id"], "")
        if "lock-note" in values.get("class", "").split():
            self.notes.append(values.get("id", ""))
        handler = getattr(self, HANDLERS.get(tag, ""), None)
        if handler is not None:
            handler(values)

    def handle_endtag(self, tag: str) -> None:
        if any(tag == each for each, __ in self._open):
            while self._open.pop()[0] != tag:
                pass
        if tag == "form":
            self._form = self._goes_to = None
        elif tag == "fieldset" and self._fenced:
            self._fenced.pop()
        elif tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._area = ""

    def handle_data(self, data: str) -> None:
        for __, id_ in self._open:
            if id_:
                self.texts[id_] += data
        if self._area and self._form is not None:
            self._form.fields[self._area] += data.removeprefix("\n")

    def reasons(self, button: Button) -> Iterator[str]:
        """What describes a button, in words; nothing where an id is nobody's."""
        for id_ in button.described_by:
            yield " ".join(self.texts.get(id_, "").split())

    def _form_(self, values: dict[str, str]) -> None:
        if values.get("method", "get").lower() != "post":
            self._goes_to = values.get("action", "")
        else:
            self._form = PostForm(
                values["action"], values.get("data-confirm-name", ""), values.get("id", "")
            )
            self.forms.append(self._form)

    def _fieldset(self, values: dict[str, str]) -> None:
        described = tuple(values.get("aria-describedby", "").split())
        self._fenced.append(described if "disabled" in values else None)

    def _button(self, values: dict[str, str]) -> None:
        fences = [fence for fence in self._fenced if fence is not None]
        described = (*values.get("aria-describedby", "").split(), *sum(fences, ()))
        button = Button(
            "disabled" in values or bool(fences),
            described,
            values.get("name", ""),
            values.get("value", ""),
        )
        if values.get("formmethod") == "post":
            alone = PostForm(values["formaction"], "")  # of a form that stands elsewhere
            alone.buttons.append(button)
            whose = values.get("form", "")
            self.forms = [each for each in self.forms if each.buttons or each.id != whose]
            self.forms.append(alone)
        elif self._form is not None and values.get("type", "submit") == "submit":
            if elsewhere := values.get("formaction"):  # the same fields to another address
                self.forms.append(PostForm(elsewhere, "", "", self._form.fields, [button]))
            else:
                self._form.buttons.append(button)
        elif self._goes_to is not None and values.get("type", "submit") == "submit":
            self.asks.append((values.get("formaction", self._goes_to), button))
        else:
            self.buttons.append(button)

    def _a(self, values: dict[str, str]) -> None:
        if "button" in values.get("class", "").split() or "dialog" in values.get("hx-target", ""):
            self.links.append(values.get("href", ""))

    def _input(self, values: dict[str, str]) -> None:
        kind = values.get("type", "text")
        if self._form is None or not values.get("name"):
            return
        if kind not in ("checkbox", "radio") or "checked" in values:
            self._form.fields[values["name"]] = values.get("value", "on")

    def _textarea(self, values: dict[str, str]) -> None:
        if self._form is not None:
            self._area = values.get("name", "")
            self._form.fields[self._area] = ""

    def _select_(self, values: dict[str, str]) -> None:
        self._select = values.get("name", "")

    def _option(self, values: dict[str, str]) -> None:
        if self._form is None or not self._select:
            return
        if "selected" in values or self._select not in self._form.fields:
            self._form.fields[self._select] = values.get("value", "")
