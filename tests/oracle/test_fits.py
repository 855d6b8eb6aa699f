"""Fits that count or arrange members, against the exact model, with random pods gone."""

import random

import msgspec
import numpy as np
import pytest

from gangsched.core.identity import group_key
from gangsched.core.preemption.arranged import ArrangedFit
from gangsched.core.preemption.fit import fit_for
from gangsched.model.records import GangId
from tests.bench.worlds import World
from tests.oracle.case import NOW, OURS
from tests.oracle.exact import fits
from tests.oracle.generate import SIGS, case
from tests.oracle.problem import read


def asked(question):
    """The attempt to place the pending gang, in a cluster without terminating pods, and its fit."""
    world = World(question)
    gangs = (GangId(SIGS, "default", "want", OURS),)
    attempt = world.decider.attempt(gangs, group_key(gangs), NOW)
    sim = attempt.simulation()
    attempt.lift_terminating(sim)
    return attempt, sim, fit_for(sim, attempt.placer, attempt.wants)


@pytest.mark.parametrize("apart", [False, True])
def test_arranged_members_fit_when_there_is_an_arrangement(apart):
    """Mixed gangs, with and without anti-affinity: same answer as the model, and places for all members."""
    answers = {True: 0, False: 0}
    for seed in range(1, 80, 2):
        question = case(seed, mixed=True, anti_affinity=apart)
        if not any(g.name == "want" for g in question.gangs):
            continue
        attempt, sim, fit = asked(question)
        if not isinstance(fit, ArrangedFit):
            continue
        problem, chance = read(question), random.Random(seed)
        table = sim.snapshot.table
        slots = [table.slot_of[p.uid] for p in problem.present if p.gang.name != "want"]
        start = fit.save()
        for share in (0.3, 0.6, 0.9):
            gone = sorted(s for s in slots if chance.random() < share)
            fit.restore(start)
            fit.take(np.array(gone[::2], dtype=np.int64))
            fit.fits()  # what was found before more pods left must not linger
            fit.take(np.array(gone[1::2], dtype=np.int64))
            uids = {table.pods[s].uid for s in gone}
            left = [p for p in problem.present if p.uid not in uids]
            expected = fits(msgspec.structs.replace(problem, present=left, units=[]), lift=True)
            rows = fit.rows(frozenset(gone))
            assert (fit.fits(), bool(rows)) == (expected, expected), f"seed {seed}"
            answers[expected] += 1
            required = sum(want.required for want in attempt.wants)
            assert not rows or len(rows) >= required
    assert min(answers.values()) >= 10
