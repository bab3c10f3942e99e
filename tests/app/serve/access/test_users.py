"""The file of users: what a line may be, and that a change holds."""

from pathlib import Path

import pytest

from app.serve.access.users import UsersFile
from tests.app.serve.access.conftest import hashed

#: A salt of its own each time: tests are named by what they expect.
HASH = str(hashed("ann"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it has no user"),
        ("# nobody\n\n", "it has no user"),
        (f"ann:viewer:{HASH}\nann:admin:{HASH}\n", "line 2 names ann a second time"),
        (f"ann:{HASH}", "line 1 is not of the form name:role:hash"),
        (f"ann:owner:{HASH}", "line 1: the role must be one of viewer, operator, admin, not 'owner'"),
        (f":viewer:{HASH}", "line 1: a name must have 1 to 64 characters"),
        (f"a\u200bnn:viewer:{HASH}", "line 1: a name must have 1 to 64 characters"),
        ("ann:viewer:secret123", "line 1: the hash was not made by `punctual password`"),
        ("ann:viewer", "line 1 is not of the form"),
        (f"ann:viewer:{HASH}:", "line 1: there is no namespace ''; DELAY_NAMESPACES has team-a, team-b"),
        (f"ann:viewer:{HASH}:team-a,team-c", "line 1: there is no namespace 'team-c'; DELAY_NAMESPACES has"),
        (f"ann:viewer:{HASH}:team-a:team-b", "line 1 is not of the form"),
        (f"ann:viewer:{HASH}:*", "line 1: there is no namespace"),
    ],
    ids=[str(number) for number in range(13)],
)
def test_a_file_that_makes_no_sense_says_where_and_never_shows_a_hash(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "users").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=says.replace("(", r"\(")) as raised:
        UsersFile(str(tmp_path / "users"), ("team-a", "team-b"))
    assert HASH not in str(raised.value)
    assert "secret123" not in str(raised.value)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        UsersFile("/no/such/file")


def test_a_change_holds_within_a_second_and_nonsense_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "users"
    path.write_text(f"ann:viewer:{HASH}\n", "utf-8")
    users = UsersFile(str(path))
    assert users.of("ann", 0.0) is not None
    _replaced(path, f"bob:admin:{HASH}\n")
    assert users.of("ann", 0.9) is not None
    assert users.of("ann", 1.1) is None
    assert users.of("bob", 1.1) is not None
    _replaced(path, "nonsense\n")
    assert users.of("bob", 2.2) is not None
    assert "is not valid: line 1" in caplog.text
    path.unlink()
    assert users.of("bob", 3.3) is not None


def test_a_line_may_bind_a_user_to_namespaces(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"ann:viewer:{HASH}\nbob:admin:{HASH}:team-b, team-a,team-b\n", "utf-8")
    users = UsersFile(str(path), ("team-a", "team-b"))
    found = {name: user.namespaces for name in ("ann", "bob") if (user := users.of(name, 0.0)) is not None}
    assert found == {"ann": None, "bob": ("team-b", "team-a")}


def _replaced(path: Path, text: str) -> None:
    other = path.with_suffix(".new")
    other.write_text(text, "utf-8")
    other.replace(path)
