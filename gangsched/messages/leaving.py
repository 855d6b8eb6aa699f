"""Sentences of ``gangsched leave`` about the workloads of a namespace."""

from __future__ import annotations

from gangsched.messages.text import Text

HEAD = Text("namespace {space}: {count} by {names}; what returns it to {to}:")
NOTHING = Text("namespace {space}: nothing names {names}")
PATCHED = "template changed; pods are replaced as its strategy says"
PATCHED_FOR_LATER = "template changed; what it makes from now on has the new name"
DELETED = Text("pending; {owner} makes another")
AGAIN = Text("deleted and created again: none of {pods} runs")
POD_AGAIN = "deleted and created again: it does not run"
STAYS = Text("{pods} run and stay; one that is made again would wait for {name}")
POD_STAYS = Text("runs on {node} and stays")
YOURS = Text("made by {owner}: set schedulerName there, then delete it")
NOT_READ = Text("{what} cannot be read: {error}")
DRY = Text("nothing was changed; --yes does this")
DRY_AND_SAVES = Text("nothing was changed; --yes does this, and first writes {file}")
SAME_NAME = Text("--to {name}: that is the scheduler to leave")
FILE_EXISTS = Text(
    "{file} exists: it may be all that is left of workloads of an earlier run; move it, or name another by --save"
)
SAVED = Text("{file} has {count} as they are created again")
FAILED = Text("{what}: {error}")
NOT_CREATED = Text("{what} was deleted, and not created again: {error}; it is in {file}")
STILL_THERE = Text("it is still there after {seconds:.0f} s")
DONE = Text("{done} of {count} done")
CHANGED = Text("it has changed since it was read: {now}; nothing was done with it")
NOTHING_TO_DO = "nothing is to be done with it"
NO_TIME = Text("not begun: the command has taken {seconds:.0f} s; run it again for the rest, with another --save")
HELD_HEAD = Text("{nodes} closed to other schedulers by the taint gangsched.dev/held of {names}:")
NONE_HELD = Text("no node is held by {names}")
HELD_FOR = Text("plan {plan}")
HELD_DRY = "nothing was changed; --yes takes the taint off"
HELD_DONE = Text("{nodes} given back to other schedulers")
HELD_AND_LEADS = Text("{leader} holds nodes again that its plans need; stop it first")
HELD_STILL = Text("{nodes}: held again; a scheduler runs that needs it")
ANY_SCHEDULER = "any scheduler"
NODES_NOT_READ = Text(
    "whether nodes are held cannot be read: {error}; who may patch nodes can take the taint off by `gangsched release`"
)
