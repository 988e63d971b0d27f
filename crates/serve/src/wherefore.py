# Commands of wherefore inside gdb. Each of them asks the server with `monitor`; when the guest has
# been put elsewhere, gdb is made to look again.

import os
import re

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
    # One that has ended is not there for gdb until it is started again.
    ended = gdb.selected_inferior().pid == 0
    shown = gdb.execute("starti" if ended else "stepi", to_string=True)
    lines = shown.splitlines()
    noise = ("Program stopped.", "Continuing.")
    lines = [line for line in lines if line and not line.endswith(noise)]
    print("\n".join(lines))


def load_libraries():
    """Has gdb see which libraries there are where the guest is: on the way there it was not told of them."""
    if gdb.parameter("auto-solib-add"):
        for words in ("info sharedlibrary", "sharedlibrary"):
            gdb.execute(words, to_string=True)


def run(text):
    kept, moved = ask(text)
    if kept:
        print("\n".join(kept))
    if moved:
        load_libraries()
        look()


def command(name, verb, text, complete=gdb.COMPLETE_NONE, kind=gdb.COMMAND_RUNNING, rewrite=str):
    """Makes a command of gdb's out of one of the server's."""

    class Passed(gdb.Command):
        __doc__ = text

        def __init__(self):
            # A method of that name would take the place of the other ways to complete.
            if callable(complete):
                super().__init__(name, kind)
            else:
                super().__init__(name, kind, complete)

        def invoke(self, argument, from_tty):
            self.dont_repeat()
            run((verb + " " + rewrite(argument)).strip())

    if callable(complete):
        Passed.complete = lambda self, text, word: complete(text, word)
    Passed()


def beginning(word, words):
    return [w for w in words if w.startswith(word)]


def place_then(*words):
    """Completes a place in the source, and behind it one of the words."""

    def complete(text, word):
        if " " in text.lstrip():
            return beginning(word, words)
        return gdb.COMPLETE_LOCATION

    return complete


def one_of(verb, *words):
    """Completes the number of something that the server lists."""

    def complete(text, word):
        try:
            lines, _ = ask(verb)
        except (gdb.error, gdb.GdbError):
            lines = []
        numbers = [re.search("[0-9]+", line) for line in lines]
        return beginning(word, list(words) + [n.group() for n in numbers if n])

    return complete


def number(text):
    """A number, or the value of an expression."""
    try:
        return str(int(text, 0))
    except ValueError:
        pass
    try:
        value = gdb.parse_and_eval(text)
        return str(int(value.cast(gdb.lookup_type("unsigned long"))))
    except gdb.error as why:
        raise gdb.GdbError(str(why))


def with_numbers(text):
    """The condition of a library breakpoint, with numbers for expressions."""
    found = re.match(r"(.* if\s+(?:arg\d+|ret)\s*==)(.*)$", text)
    if found:
        return found.group(1) + number(found.group(2).strip())
    found = re.match(r"(.* if\s+(?:write|read|access)\s+)(.*?)(\s+\d+)?$", text)
    if found:
        return found.group(1) + number(found.group(2).strip()) + (found.group(3) or "")
    return text


def call_then_condition(text, word):
    words = text.split()
    if text.endswith(" "):
        words.append("")
    if len(words) < 2:
        return gdb.COMPLETE_SYMBOL
    if len(words) == 2:
        return beginning(word, ["if"])
    if len(words) == 3:
        arguments = ["arg%d==" % n for n in range(1, 7)]
        return beginning(word, arguments + ["ret==", "write", "read", "access"])
    return []


PLACE = gdb.COMPLETE_LOCATION
TIMES = place_then("all", "once")
DATA = gdb.COMMAND_DATA

command("when", "when", """Print at which step the program stands.
A step is the number of instructions executed before; it means the same in every run.""")
command("goto", "goto", """Go to a step, or to an execution of a line: goto STEP, goto FILE:LINE [N]
Forwards or backwards. The N-th execution counted from the beginning of the run is meant, the
first one if N is left out.""", PLACE)
command("checkpoint", "checkpoint", """Keep the present position to return to with `rollback`.""")
command("rollback", "rollback", """Return to a checkpoint: rollback ID
Registers, memory, file positions and instance counts are those of the checkpoint. What is
changed from there on makes a timeline of its own; the recording is never lost.""",
        one_of("checkpoints"))
command("cdelete", "cdelete", """Delete a checkpoint: cdelete ID""", one_of("checkpoints"))
command("info checkpoints", "checkpoints", """List the checkpoints.""", kind=gdb.COMMAND_STATUS)
command("info timelines", "timelines", """List the timelines: the recording, and what was changed.""",
        kind=gdb.COMMAND_STATUS)
command("timeline", "timeline", """Go on another timeline: timeline ID
0 is the recording.""", one_of("timelines"))
command("switch", "switch", """Reverse the outcome of a predicate: switch FILE:LINE [all|once|N]
`once` is the next time (if nothing is said), `all` every time from here on, N the N-th time
counted from the beginning of the run. A condition such as `a && b` is one predicate.""", TIMES)
command("suppress", "suppress", """Do not execute a statement: suppress FILE:LINE [all|once|N]
`once` is the next time (if nothing is said), `all` every time from here on, N the N-th time
counted from the beginning of the run.""", TIMES)
command("move", "move", """Put variables elsewhere, one behind the other: move NAME[,NAME...]
Global variables go to memory of their own; local ones, move FUNCTION:NAME[,NAME...], to the end of
their frame that is nearest to the return address. What a correct program does stays the same.""")
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
        one_of("slices", "all"), kind=gdb.COMMAND_BREAKPOINTS)
command("snext", "snext", """Go to the next statement execution of a slice: snext [ID]""", one_of("slices"))
command("sprev", "sprev", """Go to the previous statement execution of a slice: sprev [ID]""", one_of("slices"))
command("sdelete", "sdelete", """Delete a slice and its breakpoints: sdelete ID""", one_of("slices"),
        kind=DATA)
command("info slices", "slices", """List the slices.""", kind=gdb.COMMAND_STATUS)
command("follow", "follow", """Go to the other end of a dependence: follow [ID] EDGE
`slice ID tree` has the edges. Without ID the latest slice is meant.""")
command("record", "record", """Make slices of a part of the run only: record FILE:LINE on|off
The part begins when the line of `on` is first executed, and ends when that of `off` is.
`record off` makes it the whole run again. The recording itself is there already.""", place_then("on", "off"))
command("lbreak", "lbreak", """Stop at calls of a library function.
lbreak FUNCTION [if argN==VALUE | if ret==VALUE | if write|read|access ADDRESS [SIZE]]
VALUE and ADDRESS may be expressions, taken as they are at present. The program stops at the
call, before it is made, also for what the call will return or touch.""", call_then_condition,
        kind=gdb.COMMAND_BREAKPOINTS, rewrite=with_numbers)
command("info lbreaks", "lbreaks", """List the breakpoints at library calls.""", kind=gdb.COMMAND_STATUS)
command("ldelete", "ldelete", """Delete a breakpoint at library calls: ldelete ID""", one_of("lbreaks"),
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
        super().__init__("edit", gdb.COMMAND_FILES)

    def complete(self, text, word):
        if text.lstrip().startswith("delete "):
            return one_of("edits")(text, word)
        return PLACE

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
move                             change where variables are
info timelines, timeline         the recording and its changed versions
slice, prune, sbreak, snext, sprev, sdelete, info slices, follow, instance, record
lbreak, info lbreaks, ldelete    calls of library functions
info detectors, detector         stop before faults that rules find
where $pc                        how the program came to where it is"""

    def __init__(self):
        super().__init__("wherefore", gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        print(self.__doc__)


class Closeness:
    """Keeps gdb on the server's CPU while the program runs: a word from one to the other then costs a
fraction. When gdb waits for its user it is free again, as is what the user starts from there."""

    def __init__(self):
        self.cpu = None
        self.free = None

    def look(self):
        said, _ = ask("cpu")
        self.cpu = int(said[0]) if said else None
        gdb.events.cont.connect(self.on)
        gdb.events.stop.connect(self.off)
        gdb.events.exited.connect(self.off)

    def on(self, event):
        if self.free is None and self.cpu is not None:
            self.free = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {self.cpu})
            # The program stops many times before its user hears of it.
            gdb.events.cont.disconnect(self.on)

    def off(self, event):
        if self.free is not None:
            os.sched_setaffinity(0, self.free)
            self.free = None
            gdb.events.cont.connect(self.on)


class Ignoring:
    """Ignore counts of breakpoints, counted by the program's own code instead of by gdb.
gdb would be told of each time that is to be ignored. For the length of a `continue` the server has the
counts; at the next stop gdb gets back what is left of them. Few times are not worth it, as gdb cannot be
told of hits that it has not seen; breakpoints with conditions, with several places, or that share theirs
with another one stay gdb's too."""

    FEW = 100

    def __init__(self):
        # By the number of the breakpoint: itself, its address and the count.
        self.taken = {}
        # Times that gdb does not know of.
        self.passed = {}
        # A `continue` has been typed, and the program does not run yet.
        self.beginning = False

    def begin(self):
        self.settle()
        self.beginning = True
        for breakpoint in gdb.breakpoints():
            self.take(breakpoint)

    def run(self, event):
        self.beginning = False

    def take(self, breakpoint):
        """Also when `continue N` sets a count."""
        count = breakpoint.ignore_count
        if not self.beginning or count < self.FEW or breakpoint.number in self.taken:
            return
        address = alone_at(breakpoint)
        direction = gdb.execute("show exec-direction", to_string=True)
        if address is None or "Forward" not in direction:
            return
        try:
            ask("ignore %x %d" % (address, count))
        except (gdb.error, gdb.GdbError):
            return
        self.taken[breakpoint.number] = (breakpoint, address, count)
        breakpoint.ignore_count = 0

    def settle(self, event=None):
        for number, (breakpoint, address, count) in self.taken.items():
            try:
                left = int(ask("ignored %x" % address)[0][0])
                ask("ignore %x 0" % address)
            except (gdb.error, gdb.GdbError):
                continue
            self.passed[number] = self.passed.get(number, 0) + count - left
            if breakpoint.is_valid():
                breakpoint.ignore_count = left
        self.taken.clear()

    def tell(self):
        """Behind what `info breakpoints` says."""
        for breakpoint in gdb.breakpoints():
            times = self.passed.get(breakpoint.number, 0)
            if times:
                print("breakpoint %d was passed by %d more time%s, ignored" % (
                    breakpoint.number, times, "" if times == 1 else "s"))

    def look(self):
        for name, what in (("hook-continue", "begin"), ("info hookpost-breakpoints", "tell")):
            try:
                # What the user has put there stays.
                gdb.execute("show user " + name, to_string=True)
                continue
            except gdb.error:
                pass
            gdb.execute("define %s\npython import wherefore; wherefore.ignoring.%s()\nend" % (name, what))
        gdb.events.breakpoint_modified.connect(self.take)
        gdb.events.cont.connect(self.run)
        gdb.events.stop.connect(self.settle)
        gdb.events.exited.connect(self.settle)


def alone_at(breakpoint):
    """The address of a breakpoint whose hits can be counted without asking gdb."""
    if not hasattr(breakpoint, "locations"):
        # Before version 13 it is not told.
        return None
    plain = breakpoint.type in (gdb.BP_BREAKPOINT, gdb.BP_HARDWARE_BREAKPOINT)
    if not plain or not breakpoint.enabled or breakpoint.pending or breakpoint.condition:
        return None
    if breakpoint.thread is not None or hasattr(breakpoint, "stop"):
        return None
    places = [(b.number, place.address) for b in gdb.breakpoints() if not is_watchpoint(b)
              for place in b.locations if place.address is not None]
    own = [address for number, address in places if number == breakpoint.number]
    if len(own) != 1 or sum(address == own[0] for _, address in places) != 1:
        return None
    return own[0]


def is_watchpoint(breakpoint):
    return breakpoint.type not in (gdb.BP_BREAKPOINT, gdb.BP_HARDWARE_BREAKPOINT)


ignoring = Ignoring()


def stay_close():
    """For a server on this machine."""
    try:
        Closeness().look()
    except (gdb.error, gdb.GdbError, OSError, ValueError):
        pass


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
ignoring.look()
gdb.events.stop.connect(stopped)
