"""Sends a message by SMTP: one attempt on a thread, its time bounded, and its outcome.

The connection goes to an address that was checked, under the server's name. Errors hold the
server's code and text, never a password.
"""

import asyncio
import base64
import contextlib
import smtplib
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from email.utils import formatdate

from app.db.alert_rows import ReceiverRow
from app.services.alerts.message_forms import AlertMessage, subject_of, text_of
from app.services.alerts.webhook import ERROR_CHARS_MAX, PostOutcome
from app.services.targets import TargetRefused, Targets
from kitemq.model.alerts import SmtpSecurity

STEP_S = 10.0  # for one answer of the server
TIMEOUT_S = 30.0  # for the whole conversation
THREADS_MAX = 4
HIDDEN = "***"


class CheckedSmtp(smtplib.SMTP):
    """A conversation with the server `host`, which is reached at one of `addresses`."""

    def __init__(self, host: str, addresses: Sequence[str], *, is_tls: bool) -> None:
        # Without a name of ours the library would look it up, here on the event loop.
        super().__init__(local_hostname=socket.gethostname(), timeout=STEP_S)
        self._host = host  # the name that certificates are compared with
        self._addresses = addresses
        self._is_tls = is_tls
        self._is_over = False

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        self.sock = self._connected(port, timeout)
        if self._is_tls:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(
                self.sock, server_hostname=self._host, do_handshake_on_connect=False
            )
            self.sock.do_handshake()
        return self.sock

    def _connected(self, port: int, timeout: float) -> socket.socket:
        failure = OSError("the name has no address")
        for address in self._addresses:
            if self._is_over:
                break
            try:
                return socket.create_connection((address, port), timeout)
            except OSError as error:
                failure = error
        raise failure

    def abort(self) -> None:
        """End the conversation from another thread."""
        self._is_over = True
        if self.sock is not None:
            with contextlib.suppress(OSError):  # closed already
                self.sock.shutdown(socket.SHUT_RDWR)


class MailSender:
    """Sends mail over connections that `targets` allows."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="kitemq-mail")

    def close(self) -> None:
        """Start nothing more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def send(self, receiver: ReceiverRow, message: AlertMessage) -> PostOutcome:
        """Send a message to all recipients of a receiver."""
        host, port = receiver.smtp_host, receiver.smtp_port
        try:
            addresses = await self._targets.resolve(host, port)
        except TargetRefused as error:
            return PostOutcome(None, f"the mail server is not called: {error}"[:ERROR_CHARS_MAX])
        except OSError as error:
            return PostOutcome(None, f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX])
        smtp = CheckedSmtp(host, addresses, is_tls=receiver.smtp_security == SmtpSecurity.TLS)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await loop.run_in_executor(self._executor, _send, smtp, receiver, message)
        except TimeoutError:
            return PostOutcome(None, f"the mail server took longer than {TIMEOUT_S:g} s")
        finally:
            smtp.abort()


def _send(smtp: CheckedSmtp, receiver: ReceiverRow, message: AlertMessage) -> PostOutcome:
    try:
        refusals = _converse(smtp, receiver, mail_of(receiver, message))
    except smtplib.SMTPRecipientsRefused as error:
        return _refused(receiver, error.recipients, "no recipient was accepted")
    except smtplib.SMTPConnectError as error:
        return PostOutcome(None, f"the server answered {error.smtp_code}")
    except smtplib.SMTPResponseException as error:
        text = _without_secrets(receiver, f"{error.smtp_code} {_text(error.smtp_error)}")
        return PostOutcome(None, text, is_permanent=500 <= error.smtp_code < 600)
    except (smtplib.SMTPException, OSError) as error:
        text = _without_secrets(receiver, f"{type(error).__name__}: {error}")
        return PostOutcome(None, text)
    finally:
        smtp.close()
    return _refused(receiver, refusals, "not accepted for all") if refusals else PostOutcome(250)


def _converse(
    smtp: CheckedSmtp, receiver: ReceiverRow, mail: EmailMessage
) -> dict[str, tuple[int, bytes]]:
    """Hand over a mail; what the server said of recipients that it refused."""
    code, text = smtp.connect(receiver.smtp_host, receiver.smtp_port)
    if code != 220:
        raise smtplib.SMTPConnectError(code, text)
    if receiver.smtp_security == SmtpSecurity.STARTTLS:
        smtp.starttls(context=ssl.create_default_context())
    if receiver.smtp_username:
        smtp.login(receiver.smtp_username, receiver.smtp_password)
    refusals = smtp.send_message(mail, receiver.mail_from, receiver.mail_to)
    with contextlib.suppress(smtplib.SMTPException, OSError):  # the mail is accepted by now
        smtp.quit()
    return refusals


def mail_of(receiver: ReceiverRow, message: AlertMessage) -> EmailMessage:
    """The mail of a message; a repeated one has the same Message-ID."""
    mail = EmailMessage()
    mail["From"] = receiver.mail_from
    mail["To"] = ", ".join(receiver.mail_to)
    mail["Subject"] = subject_of(message)
    mail["Date"] = formatdate(message.at_ms / 1000)
    mail["Message-ID"] = f"<{message.id}@{receiver.mail_from.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-KiteMQ-Event"] = message.event
    mail.set_content(text_of(message))
    return mail


def _refused(
    receiver: ReceiverRow, recipients: dict[str, tuple[int, bytes]], what: str
) -> PostOutcome:
    """Of several recipients some may have got it, so it is not sent again to those."""
    said = "; ".join(f"{to}: {code} {_text(text)}" for to, (code, text) in recipients.items())
    is_permanent = len(recipients) < len(receiver.mail_to) or all(
        500 <= code < 600 for code, _ in recipients.values()
    )
    return PostOutcome(None, _without_secrets(receiver, f"{what}: {said}"), is_permanent)


def _text(answer: bytes | str) -> str:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    return " ".join(text.split())


def _without_secrets(receiver: ReceiverRow, text: str) -> str:
    """A text without the password, also as a server may repeat it of the login."""
    user, password = receiver.smtp_username, receiver.smtp_password
    if password:
        plain = (password, f"\0{user}\0{password}")
        for secret in (password, *(base64.b64encode(each.encode()).decode() for each in plain)):
            text = text.replace(secret, HIDDEN)
    return text[:ERROR_CHARS_MAX]
