"""The delegation tokens of a cluster, against what its broker and Kafka's own tool said while it ran."""

import re
import time
from types import SimpleNamespace

import pytest
from kafka import AFTER_A_KILL, EACH_RELEASE, Broker

import brokerless as bl
from brokerless.cli import main
from brokerless.metadata.image import SCHEMAS
from support.polling import until

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORD = "not-to-be-shown"
ACCOUNTS = " ".join(f'user_{user}="{PASSWORD}"' for user in ("admin", "ann"))
# Tokens are for clients that are authenticated otherwise: the only listener, of all clients, asks for a password.
SETTINGS = {
    "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter_broker_listener_name": "PLAINTEXT",
    "sasl_enabled_mechanisms": "PLAIN",
    "sasl_mechanism_inter_broker_protocol": "PLAIN",
    "listener_name_plaintext_plain_sasl_jaas_config": f'{LOGIN} username="admin" password="{PASSWORD}" {ACCOUNTS};',
    "delegation_token_secret_key": PASSWORD,
    "delegation_token_expiry_check_interval_ms": 200,
    # So that some tables come from a snapshot.
    "metadata_log_max_snapshot_interval_ms": 1000,
}
HOUR = 3_600_000


def as_user(name):
    """Return the properties of a client."""
    login = f'{LOGIN} username="{name}" password="{PASSWORD}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}


@pytest.fixture(scope="module", params=EACH_RELEASE)
def seen(request, tmp_path_factory, client):
    """A stopped broker's directory, what it said at several moments, and what the tool said last."""
    root = tmp_path_factory.mktemp("tokens")
    data, moments = root / "data", []
    config = root / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in as_user("admin").items()))
    with Broker(data, log=root / "log", version=request.param, **SETTINGS, **AFTER_A_KILL) as broker:

        def change(name, user="admin", **what):
            client.state(broker, "changeToken", client=as_user(user), name=name, **what)

        def ask():
            return client.state(broker, "tokens", client=as_user("admin"))

        def take_moment(count):
            until(lambda: len(ask()) == count)
            time.sleep(0.5)
            moments.append((int(time.time() * 1000), ask()))
            time.sleep(0.5)

        change("plain", create={"renewers": []})
        change("renewed", create={"renewers": ["ann", "bob"], "lifetime": 10 * HOUR})
        change("owned", create={"renewers": ["ann"], "owner": "ann", "lifetime": 5 * HOUR})
        change("removed", "ann", create={"renewers": ["admin"]})
        change("brief", create={"renewers": [], "lifetime": 4000})
        take_moment(5)
        change("renewed", "ann", renew=HOUR)
        change("owned", "ann", expire=HOUR)
        change("removed", expire=-1)
        # The controller removes the brief one.
        take_moment(3)
        until(lambda: list(data.glob("__cluster_metadata-0/*[1-9]*.checkpoint")))
        arguments = ["--command-config", str(config), "--describe"]
        # Without an owner it prints none.
        arguments += ["--owner-principal", "User:admin", "--owner-principal", "User:ann"]
        (tool,) = client.state(
            broker, "tool", main="org.apache.kafka.tools.DelegationTokenCommand", arguments=arguments
        )
    return SimpleNamespace(data=data, moments=moments, tool=tool["said"])


def ms(time):
    return round(time.timestamp() * 1000)


def ours(state):
    times = ("issued", "expires", "max_time")
    return [row | {name: ms(row[name]) for name in times} for row in state.table("tokens").to_pylist()]


def test_no_token_differs_at_any_moment(seen):
    for at, said in seen.moments:
        expected = [{name: value for name, value in row.items() if name != "secret"} for row in said]
        found = ours(bl.cluster(seen.data, as_of=at))
        assert found == sorted(expected, key=lambda row: row["token_id"])
    assert ours(bl.cluster(seen.data)) == found
    before, after = ({row["token_id"]: row["expires"] for row in rows} for _, rows in seen.moments)
    assert sum(before[token] != after[token] for token in after) == 2


def test_no_token_differs_from_what_the_tool_prints(seen):
    pattern = r"^(\S{22}) +(\S+) +(\S+) +(\S+) +(\[.*\]) +(\S+) +(\S+) +(\S+) *$"
    rows = re.findall(pattern, seen.tool, re.MULTILINE)
    state = bl.cluster(seen.data)
    assert sorted((token, owner, requester, who) for token, _, owner, requester, who, *_ in rows) == [
        (row["token_id"], row["owner"], row["requester"], f"[{', '.join(row['renewers'])}]") for row in ours(state)
    ]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_secret_is_shown(seen, options, capsys):
    secrets = [row["secret"] for _, rows in seen.moments for row in rows] + [PASSWORD]
    with pytest.raises(SystemExit, match="0"):
        main(["cluster", "tokens", str(seen.data), *options])
    said = capsys.readouterr()
    assert "User:ann" in said.out
    state = bl.cluster(seen.data, secrets=True)
    shown = said.out + said.err + str([state.table(subject).to_pylist() for subject in SCHEMAS])
    assert [secret for secret in secrets if secret in shown] == []
