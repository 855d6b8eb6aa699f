"""The fit of a gang, counted or placed, against the exact model, with random pods gone."""

import random

import msgspec
import numpy as np
import pytest

from gangsched.core.preemption.demand import demands_of
from gangsched.core.preemption.fit import CountedFit, fit_for
from gangsched.model.records import GangId
from tests.amounts import amount
from tests.bench.worlds import World
from tests.oracle.case import OURS
from tests.oracle.exact import fits
from tests.oracle.generate import SIGS, case
from tests.oracle.problem import read


def asked(question):
    """The attempt to place the pending gang, in a cluster without terminating pods, and its fit."""
    world = World(question)
    gangs = (GangId(SIGS, "default", "want", OURS),)
    attempt = world.decider.context(gangs)
    sim = attempt.planned()
    demand = demands_of(sim, attempt.placer.pipeline, attempt.wants)[0]
    return attempt, sim, fit_for(sim, attempt.placer, attempt.wants, demand)


def fits_without(problem, uids):
    """Does the model find places when these pods are gone?"""
    left = [p for p in problem.present if p.uid not in uids]
    return fits(msgspec.structs.replace(problem, present=left, units=[]), lift=True)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_a_gang_fits_when_there_is_an_arrangement(mixed, apart):
    """Same answer as the model; places for the required members; and what may not return would be missed."""
    answers = {True: 0, False: 0}
    for seed in range(0, amount(80, 36), 2):
        question = case(seed + mixed, mixed=mixed, anti_affinity=apart)
        if not any(g.name == "want" for g in question.gangs):
            continue
        attempt, sim, fit = asked(question)
        problem, chance = read(question), random.Random(seed)
        table = sim.snapshot.table
        slots = [table.slot_of[p.uid] for p in problem.present if p.gang.name != "want"]
        start = fit.save()
        for share in (0.3, 0.6, 0.9):
            gone = sorted(s for s in slots if chance.random() < share)
            fit.restore(start)
            fit.remove(np.array(gone[::2], dtype=np.int64))
            fit.fits()  # what was found before more pods left must not linger
            fit.remove(np.array(gone[1::2], dtype=np.int64))
            known = fits_without(problem, {table.pods[s].uid for s in gone})
            assert fit.fits() == known, f"seed {seed}"
            answers[known] += 1
            if not isinstance(fit, CountedFit):
                required = sum(want.required for want in attempt.wants)
                assert len(fit.rows()) >= required * known
            may = fit.may_return([np.array([s]) for s in gone]) if known else []
            for slot in (s for s, m in zip(gone, may, strict=known) if not m):
                assert not fits_without(problem, {table.pods[s].uid for s in gone if s != slot}), f"seed {seed}"
    assert min(answers.values()) >= amount(10, 3)


def test_a_look_at_members_one_by_one_brings_back_only_what_may_return():
    """Where no more than a look is worth its time, pods come back only if the members have places beside them, and
    never those that counting has ruled out.
    """
    answers = {True: 0, False: 0}
    ruled_out = 0
    for seed in range(1, amount(160, 64), 2):
        question = case(seed, mixed=True)
        if not any(g.name == "want" for g in question.gangs):
            continue
        _, sim, fit = asked(question)
        problem, table = read(question), sim.snapshot.table
        away = sorted(table.slot_of[p.uid] for p in problem.present if p.gang.name != "want")
        fit.remove(np.array(away, dtype=np.int64))
        if isinstance(fit, CountedFit) or not fit.fits():
            continue
        fit.hint(fit.rows(), least=True)
        for slot in list(away):
            may = bool(fit.may_return([np.array([slot])])[0])
            back = fit.returns(np.array([slot]))
            assert may or not back, f"seed {seed}"
            ruled_out += not may
            if back:
                away.remove(slot)
            answers[back] += 1
        assert fit.fits(), f"seed {seed}"
        assert fits_without(problem, {table.pods[s].uid for s in away}), f"seed {seed}"
    assert min(*answers.values(), ruled_out) >= amount(20, 5)
