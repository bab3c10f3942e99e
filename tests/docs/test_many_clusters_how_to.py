"""The file of clusters in docs/how-to/many-clusters.md is valid, and the table has each key."""

import re
from pathlib import Path

from app.settings.clusters import clusters
from tests.harness.certificates import Authority

PAGE = Path(__file__).parents[2] / "docs/how-to/many-clusters.md"


def test_its_file_is_read(tmp_path: Path) -> None:
    [text] = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "password").write_text("secret", "utf-8")
    (tmp_path / "ca.pem").write_bytes(Authority("us").pem)
    for said, here in (("/run/secrets/us-password", "password"), ("/etc/punctual/us-ca.pem", "ca.pem")):
        assert said in text
        text = text.replace(said, str(tmp_path / here))
    file = tmp_path / "clusters.toml"
    file.write_text(text, "utf-8")

    found = clusters(str(file), {"CLOUD_SECRET": "secret"})
    assert found.keys() == found.logins.keys() == {"us", "cloud"}
    assert found.rates.keys() == {"us"}
