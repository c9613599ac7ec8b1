"""A job takes files of another job only with their SHA-256: each job of a run could replace them."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("ruamel.yaml")

GITHUB = Path(__file__).parents[3] / ".github"
CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"
RELEASE = ("release", "wheels")


def read(path):
    return yaml.YAML(typ="safe").load(path)


def workflow(name):
    return read(GITHUB / f"workflows/{name}.yml")


@pytest.mark.parametrize("name", RELEASE)
def test_each_download_of_a_release_names_sums_that_jobs_put_out(name):
    jobs = workflow(name)["jobs"]
    fetches = [(job, step) for job in jobs.values() for step in job.get("steps", []) if "fetch" in step.get("uses", "")]
    assert len(fetches) >= 3
    for job, step in fetches:
        found = re.findall(r"\$\{\{ needs\.(\w+)\.outputs(?:\.|\[)([\w.-]+)\]? \}\}", step["with"]["sums"])
        assert len(found) == step["with"]["sums"].count("${{") > 0
        for source, key in found:
            assert source in ([job["needs"]] if isinstance(job["needs"], str) else job["needs"])
            made = jobs[source].get("outputs") or called(jobs[source])["on"]["workflow_call"]["outputs"]
            targets = {one["target"] for one in job.get("strategy", {}).get("matrix", {}).get("include", [])}
            assert (targets if key == "matrix.target" else {key}) <= set(made)


@pytest.mark.parametrize("name", RELEASE)
def test_a_release_downloads_in_no_other_way(name):
    for job in workflow(name)["jobs"].values():
        assert [step for step in job.get("steps", []) if "download-artifact" in step.get("uses", "")] == []
    download, check = read(GITHUB / "actions/fetch/action.yml")["runs"]["steps"]
    assert download["uses"].startswith("actions/download-artifact@")
    assert check["env"]["DIRECTORY"] == download["with"]["path"]


def called(job):
    return workflow(Path(job["uses"]).stem)


def test_each_output_of_a_build_has_a_step_that_writes_it():
    """A misspelt one would be empty."""
    jobs = workflow("wheels")["jobs"]
    targets = {one["target"] for one in jobs["wheel"]["strategy"]["matrix"]["include"]}
    for name in ("library", "wheel"):
        (writer,) = [step for step in jobs[name]["steps"] if step.get("id") == "sums"]
        assert writer["env"] == {"TARGET": "${{ matrix.target }}"}
        assert jobs[name]["outputs"] == {one: "${{ steps.sums.outputs." + one + " }}" for one in targets}
    whole = workflow("wheels")["on"]["workflow_call"]["outputs"]["sums"]["value"]
    expected = {"jobs.sdist.outputs.sums", *(f"jobs.wheel.outputs.{one}" for one in targets)}
    assert set(whole.replace("${{", " ").replace("}}", " ").split()) == expected


def test_only_jobs_that_build_nothing_may_sign():
    """Who has a token of the workflow can attest any file."""
    for name in ("release", "wheels", "full"):
        for job in workflow(name)["jobs"].values():
            if "id-token" in job.get("permissions", {}):
                assert [step["run"] for step in job["steps"] if "run" in step] == []


def test_no_job_that_builds_what_is_published_runs_tests():
    """What tests install has no checksums, and could change a file before its sum is known."""
    for name, job in workflow("wheels")["jobs"].items():
        commands = " ".join(step.get("run", "") for step in job["steps"])
        assert ("GITHUB_OUTPUT" in commands) != ("tools/installed" in commands), name
        assert "make wheels" not in commands


def test_the_checks_that_main_requires_exist():
    """A check whose name no job has would never pass, and nothing could be merged."""
    setting = re.search(r"\*Require status checks to pass\*: (.*?) \|", CONTRIBUTING.read_text())[1]
    quick = [f"quick ({target})" for target in workflow("quick")["jobs"]["quick"]["strategy"]["matrix"]["target"]]
    assert re.findall("`(.+?)`", setting) == [*quick, *workflow("fragment")["jobs"]]


def test_the_site_that_is_pushed_is_built():
    """A push with the token of a workflow starts no other workflow, so it may not start the build of the pages."""
    job = workflow("release")["jobs"]["publish-site"]
    assert job["permissions"] == {"contents": "write", "pages": "write"}
    push, build = (job["steps"][-1]["run"].index(one) for one in ("git -C site push", "pages/builds"))
    assert push < build


def test_a_run_by_hand_publishes_nothing():
    """It tries a commit before its tag, which is never deleted."""
    jobs = workflow("release")["jobs"]
    assert "workflow_dispatch" in workflow("release")["on"]
    publishing = {
        name for name, job in jobs.items() if "environment" in job or "write" in job.get("permissions", {}).values()
    }
    assert jobs["provenance"]["if"] == "github.ref_type == 'tag'"

    def needed(name):
        needs = jobs[name].get("needs", [])
        needs = {needs} if isinstance(needs, str) else set(needs)
        return needs.union(*map(needed, needs))

    assert publishing == {"provenance", "pypi", "github", "publish-site"}
    # A job is skipped if one that it needs was skipped, unless it says otherwise.
    for name in publishing - {"provenance"}:
        assert "provenance" in needed(name)
        assert "if" not in jobs[name]
