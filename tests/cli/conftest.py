"""Shared by the command-line tests: a scripted run and the profile made of it."""

from __future__ import annotations

import msgspec
import pytest
import scripted

from suite import machine, profiles
from suite.experiments import crossover
from suite.request import Request, checked


@pytest.fixture(scope="session")
def scripted_run():
    """A whole run on scripted backends; its machine is made to have a GPU of another name."""
    clock, backends = scripted.pair()
    asked = checked(Request(sizes=(8, 16, 32, 64), time_budget_s=300))
    run = crossover.measure(asked, chosen=backends, clock=clock, command="gemm-crossover crossover")
    elsewhere = machine.describe() | {"fingerprint": "0123456789ab", "gpus": [{"name": "Scripted GPU"}]}
    return msgspec.structs.replace(run, machine=elsewhere)


@pytest.fixture(scope="session")
def profile_path(scripted_run, tmp_path_factory):
    """A profile of the scripted run, as a file."""
    path = tmp_path_factory.mktemp("profile") / "scripted.json"
    path.write_bytes(profiles.encode(profiles.build([scripted_run], "scripted machine")))
    return path


@pytest.fixture(scope="session")
def plugin(tmp_path_factory):
    """Environment in which the scripted backends are installed, with a state folder of its own."""
    folder = tmp_path_factory.mktemp("plugin")
    return scripted.install(folder) | {"XDG_STATE_HOME": str(folder / "state")}


@pytest.fixture
def no_gpu(tmp_path):
    """Environment in which CUDA may use no device, with a state folder of its own."""
    return scripted.environment(CUDA_VISIBLE_DEVICES="", XDG_STATE_HOME=str(tmp_path / "state"))
