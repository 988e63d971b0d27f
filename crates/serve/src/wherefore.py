# Commands of wherefore inside gdb. Each of them asks the server with `monitor`; when the guest has
# been put elsewhere, gdb is made to look again.

import gdb

MOVED = "(the guest has moved:"


def ask(text):
    """What the server answers, and whether the guest has moved."""
    answer = gdb.execute("monitor " + text, to_string=True)
    lines = answer.splitlines()
    if lines and lines[0].startswith("error: "):
        raise gdb.GdbError("\n".join(lines)[len("error: "):])
    kept = [line for line in lines if not line.startswith(MOVED)]
    return kept, len(kept) < len(lines)


def look():
    """Has gdb see where the guest is, and show it as at any stop."""
    shown = gdb.execute("stepi", to_string=True)
    lines = shown.splitlines()
    noise = ("Program stopped.", "Continuing.")
    lines = [line for line in lines if line and not line.endswith(noise)]
    print("\n".join(lines))


def run(text):
    kept, moved = ask(text)
    if kept:
        print("\n".join(kept))
    if moved:
        look()


def command(name, verb, text, complete=gdb.COMPLETE_NONE, words=None, kind=gdb.COMMAND_RUNNING):
    """Makes a command of gdb's out of one of the server's."""

    class Passed(gdb.Command):
        __doc__ = text

        def __init__(self):
            # A method of that name would take the place of the other ways to complete.
            if words is None:
                super().__init__(name, kind, complete)
            else:
                super().__init__(name, kind)

        def invoke(self, argument, from_tty):
            self.dont_repeat()
            run((verb + " " + argument).strip())

    if words is not None:
        Passed.complete = lambda self, text, word: [w for w in words if w.startswith(word)]
    Passed()


PLACE = gdb.COMPLETE_LOCATION
DATA = gdb.COMMAND_DATA

command("when", "when", """Print at which step the program stands.
A step is the number of instructions executed before; it means the same in every run.""")
command("goto", "goto", """Go to a step, forwards or backwards: goto STEP""")
command("checkpoint", "checkpoint", """Keep the present position to return to with `rollback`.""")
command("rollback", "rollback", """Return to a checkpoint: rollback ID
Registers, memory, file positions and instance counts are those of the checkpoint. What is
changed from there on makes a timeline of its own; the recording is never lost.""")
command("cdelete", "cdelete", """Delete a checkpoint: cdelete ID""")
command("info checkpoints", "checkpoints", """List the checkpoints.""", kind=gdb.COMMAND_STATUS)
command("info timelines", "timelines", """List the timelines: the recording, and what was changed.""",
        kind=gdb.COMMAND_STATUS)
command("timeline", "timeline", """Go on another timeline: timeline ID
0 is the recording.""")
command("switch", "switch", """Reverse the outcome of a predicate: switch FILE:LINE [all|once|N]
`once` is the next time (if nothing is said), `all` every time from here on, N the N-th time
counted from the beginning of the run. A condition such as `a && b` is one predicate.""", PLACE)
command("suppress", "suppress", """Do not execute a statement: suppress FILE:LINE [all|once|N]
`once` is the next time (if nothing is said), `all` every time from here on, N the N-th time
counted from the beginning of the run.""", PLACE)
command("info edits", "edits", """List what is switched, suppressed or set on this timeline.""",
        kind=gdb.COMMAND_STATUS)
command("instance", "instance", """Print how often a line was executed before this: instance FILE:LINE""",
        PLACE, kind=DATA)
command("slice", "slice", """Find the statements that had to do with a value.
slice [FILE:LINE [N]] [VARIABLE | ADDRESS [SIZE] | $REGISTER]
slice ID          show a slice again
slice ID tree     show it with its dependences
Without a place it begins where the program stands, without a variable with everything that
is used there. The N-th execution of a line is meant, the last one if N is left out.""",
        gdb.COMPLETE_SYMBOL, kind=DATA)
command("prune", "prune", """Leave dependences out of a slice: prune ID NAME[,NAME...]
Names are global variables, registers, or ADDRESS+SIZE.""", gdb.COMPLETE_SYMBOL, kind=DATA)
command("sbreak", "sbreak", """Stop at statements of a slice: sbreak ID S1[,S2...], or sbreak all ID
The program stops at the executions of the statement that are in the slice, not at others.""",
        words=["all"], kind=gdb.COMMAND_BREAKPOINTS)
command("snext", "snext", """Go to the next statement execution of a slice: snext [ID]""")
command("sprev", "sprev", """Go to the previous statement execution of a slice: sprev [ID]""")
command("sdelete", "sdelete", """Delete a slice and its breakpoints: sdelete ID""", kind=DATA)
command("info slices", "slices", """List the slices.""", kind=gdb.COMMAND_STATUS)
command("follow", "follow", """Go to the other end of a dependence: follow [ID] EDGE
`slice ID tree` has the edges. Without ID the latest slice is meant.""")
command("record", "record", """Make slices of a part of the run only: record FILE:LINE on|off
The part begins when the line of `on` is first executed, and ends when that of `off` is.
`record off` makes it the whole run again. The recording itself is there already.""", PLACE)
command("lbreak", "lbreak", """Stop at calls of a library function.
lbreak FUNCTION [if argN==VALUE | if ret==VALUE | if write|read|access ADDRESS [SIZE]]
The program stops at the call, before it is made, also for what the call will return or
touch.""", gdb.COMPLETE_SYMBOL, kind=gdb.COMMAND_BREAKPOINTS)
command("info lbreaks", "lbreaks", """List the breakpoints at library calls.""", kind=gdb.COMMAND_STATUS)
command("ldelete", "ldelete", """Delete a breakpoint at library calls: ldelete ID""",
        kind=gdb.COMMAND_BREAKPOINTS)
command("info detectors", "detectors", """List the detectors: rules about memory and others, on or off.""",
        kind=gdb.COMMAND_STATUS)
command("detector", "detector", """Switch a detector on or off: detector NAME on|off
What it finds in the recording is listed, and the program stops before each of these faults
when it goes on.""", kind=gdb.COMMAND_BREAKPOINTS)


class Edit(gdb.Command):
    """Take an edit back: edit delete ID
`info edits` lists them. With another argument, or none, the source is opened in $EDITOR, as
gdb does it."""

    def __init__(self):
        super().__init__("edit", gdb.COMMAND_FILES, PLACE)

    def invoke(self, argument, from_tty):
        words = argument.split()
        if words[:1] == ["delete"]:
            if len(words) != 2:
                raise gdb.GdbError("write the number of an edit; `info edits` lists them")
            run("edit-delete " + words[1])
            return
        if argument:
            place = gdb.decode_line(argument)[1][0]
        else:
            place = gdb.selected_frame().find_sal()
        if place.symtab is None:
            raise gdb.GdbError("there is no source to edit here")
        gdb.execute("shell ${EDITOR:-/bin/ex} +%d '%s'" % (place.line, place.symtab.fullname()))


class Where(gdb.Command):
    """Print the stack, as `backtrace` does; `where $pc` tells how the program came where it is.
For a program counter that is garbage: the instruction before, and who wrote the address to
where it was taken from."""

    def __init__(self):
        super().__init__("where", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if argument.strip() == "$pc":
            run("came-from")
        else:
            gdb.execute("backtrace " + argument, from_tty)


class Help(gdb.Command):
    """What wherefore adds to gdb:
when, goto                       positions in time
reverse-step, reverse-next, reverse-finish, reverse-stepi, reverse-continue (gdb's own)
checkpoint, rollback, info checkpoints, cdelete
switch, suppress, info edits, edit delete        change what statements do
info timelines, timeline         the recording and its changed versions
slice, prune, sbreak, snext, sprev, sdelete, info slices, follow, instance, record
lbreak, info lbreaks, ldelete    calls of library functions
info detectors, detector         stop before faults that rules find
where $pc                        how the program came to where it is"""

    def __init__(self):
        super().__init__("wherefore", gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        print(self.__doc__)


def stopped(event):
    """Says why the program stopped where gdb has no words for it."""
    try:
        said, _ = ask("stopped")
    except gdb.error:
        return
    if said:
        print("\n".join(said))


Edit()
Where()
Help()
gdb.events.stop.connect(stopped)
