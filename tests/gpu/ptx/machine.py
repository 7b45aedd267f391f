"""A machine for the PTX of our kernels: some blocks at a time, all their threads side by side, those first that are
furthest behind.  It refuses what hardware refuses or leaves to chance: memory that nobody took, vectors that are not
aligned, barriers and exchanges of a warp that not all reach, and shared memory read or written without a barrier
after another thread's write or read, or before cp.async was waited for."""
import numpy as np

WARP = 32
SHARED_AT, PARAMETERS_AT = 0x1000, 0x40000  # where these spaces begin
PARAMETER_BYTES = 512  # of each, at most
LANES = 4096  # of all blocks that run side by side
MOST_STEPS = 3_000_000  # basic blocks of one launch: more, and it never ends


class Refused(Exception):
    pass


# ---- Memory


class Memory:
    """The GPU's: what was taken is there, and nothing else."""

    GAP = 256

    def __init__(self, size):
        room = np.zeros(size + 256, np.uint8)
        skip = -room.ctypes.data % 256
        self.bytes = room[skip : skip + size]
        self.at = self.bytes.ctypes.data
        self.there = np.zeros(size, bool)
        self.views = {n: self.bytes.view(f"u{n}") for n in (1, 2, 4, 8)}
        self.wide = self.bytes.view("u8").reshape(-1, 2)
        self.taken = {}
        self.top = self.GAP

    def take(self, size):
        at = self.top
        if at + size + 2 * self.GAP > len(self.bytes):
            return 0
        self.top = (at + size + 2 * self.GAP - 1) // self.GAP * self.GAP
        self.there[at : at + size] = True
        self.taken[at] = size
        return self.at + at

    def give(self, address):
        at = address - self.at
        self.there[at : at + self.taken.pop(at)] = False
        self.top = max((a + s + 2 * self.GAP - 1 for a, s in self.taken.items()), default=self.GAP)
        self.top = self.top // self.GAP * self.GAP

    def offsets(self, address, size):
        at = address - np.uint64(self.at)
        if (at & np.uint64(size - 1)).any():
            raise Refused(f"{size} bytes that are not aligned")
        last = at + np.uint64(size - 1)
        if at.max() > len(self.bytes) - size or not (self.there[at].all() and self.there[last].all()):
            raise Refused(f"{size} bytes of memory that nobody took")
        return at.astype(np.int64)


class Shared:
    """Of each block, and who wrote and read it last: tags that grow from barrier to barrier, with the warp in them.
    What cp.async may not have brought yet has one that is larger than all."""

    PENDING, MANY = 1 << 40, WARP * 2 - 1  # the second stands for several warps

    def __init__(self, kernel, batch):
        size = kernel.shared_bytes
        self.batch, self.size, self.granule = batch, size, kernel.granule
        self.bytes = np.full(batch.blocks * size, 0xFF, np.uint8)
        self.there = np.zeros(size, bool)
        for at, count in kernel.shared.values():
            self.there[at : at + count] = True
        self.views = {n: self.bytes.view(f"u{n}") for n in (1, 2, 4, 8)}
        self.wide = self.bytes.view("u8").reshape(-1, 2)
        count = len(self.bytes) // self.granule
        self.written, self.read = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        self.writer = np.full(count, -1, np.int64)  # thread_now() of who did
        self.copies, self.group = [], np.zeros(batch.lanes, np.int64)

    def offsets(self, address, size, lanes):
        at = address.astype(np.int64) - SHARED_AT
        if (at & (size - 1)).any():
            raise Refused(f"{size} bytes of shared memory that are not aligned")
        inside = at.min() >= 0 and at.max() <= self.size - size
        if not inside or not (self.there[at].all() and self.there[at + size - 1].all()):
            raise Refused(f"{size} bytes of shared memory that are nobody's")
        return at + self.batch.block[lanes.index] * self.size

    def granules(self, at, size):
        """And for each one the lane's place among those that are active."""
        each = size // self.granule
        if each == 1:
            return at // self.granule, slice(None)
        return ((at // self.granule)[:, None] + np.arange(each)).ravel(), np.repeat(np.arange(len(at)), each)

    def settled(self, where, tag, thread, doing):
        """What lies there was written by the thread itself, or is behind a barrier."""
        written = self.written[where]
        bad = (written >= tag - tag % 64) & (written != tag)
        if bad.any():
            if (written[bad] == self.PENDING).any():
                raise Refused(f"{doing} what cp.async may still bring")
            raise Refused(f"{doing} what another warp has written: no barrier between")
        writer = self.writer[where]
        if ((written == tag) & (writer // WARP == thread // WARP) & (writer != thread)).any():
            raise Refused(f"{doing} what another lane has written: no barrier of the warp between")

    def reads(self, at, size, lanes):
        where, who = self.granules(at, size)
        tag = self.batch.tag[lanes.index][who]
        self.settled(where, tag, self.batch.thread_now()[lanes.index][who], "reads")
        before = self.read[where]
        base = tag - tag % 64
        self.read[where] = np.where((before >= base) & (before != tag), base + self.MANY, tag)

    def writes(self, at, size, lanes, pending=False):
        where, who = self.granules(at, size)
        tag = self.batch.tag[lanes.index][who]
        thread = self.batch.thread_now()[lanes.index][who]
        self.settled(where, tag, thread, "overwrites")
        before = self.read[where]
        if ((before >= tag - tag % 64) & (before != tag)).any():
            raise Refused("overwrites what another warp reads: no barrier between")
        self.written[where] = self.PENDING if pending else tag
        self.writer[where] = thread
        if pending:
            lane = np.arange(self.batch.lanes)[lanes.index][who]
            self.copies.append((where, lane, self.group[lane]))

    def wait(self, but, lanes):
        """Copies of these lanes are there, but for those of their last groups."""
        runs = np.zeros(self.batch.lanes, bool)
        runs[lanes.index] = True
        left = []
        for where, lane, group in self.copies:
            done = runs[lane] & (self.group[lane] - group > but)
            self.written[where[done]] = self.batch.tag[lane[done]]
            self.writer[where[done]] = self.batch.thread_now()[lane[done]]
            if not done.all():
                left.append((where[~done], lane[~done], group[~done]))
        self.copies = left


# ---- Running


class Lanes:
    """Those of a batch that run: `where` is for numpy's functions, `index` for what is gathered."""

    def __init__(self, mask):
        self.mask, self.count = mask, int(np.count_nonzero(mask))
        every = self.count == len(mask)
        self.where = True if every else mask
        self.index = slice(None) if every else np.flatnonzero(mask)


class Batch:
    """Blocks `first` and the next ones of a grid."""

    def __init__(self, kernel, memory, parameters, first, blocks, grid, threads):
        self.kernel, self.memory, self.parameters = kernel, memory, parameters
        self.blocks, self.threads, self.lanes = blocks, threads, blocks * threads
        thread = np.tile(np.arange(threads), blocks)
        self.block = np.repeat(np.arange(blocks), threads)
        self.lane, self.warp_number = thread % WARP, np.arange(self.lanes) // WARP
        self.tag = thread // WARP  # of shared memory's accesses: 64 times the barriers that are behind, and the warp
        self.syncs = np.zeros(self.lanes, np.int64)  # the warp's own barriers
        special = {"%tid.x": thread, "%ctaid.x": first + self.block, "%ntid.x": threads, "%nctaid.x": grid}
        self.v, registers = [], {}
        for operand, dtype, width in kernel.values:
            constant = kernel.constant(operand, dtype)
            if constant is not None:
                self.v.append(constant)
            elif operand in special:
                self.v.append(np.broadcast_to(np.asarray(special[operand], dtype), self.lanes))
            else:
                if operand not in registers:
                    registers[operand] = np.full(self.lanes * width, 0xCD if width > 1 else 0, np.uint8)
                view = registers[operand].view(dtype)
                self.v.append(view[:: width // dtype.itemsize])
        self.shared = Shared(kernel, self) if kernel.shared else None

    def thread_now(self):
        """The lane, and how often its warp has waited for itself."""
        return self.syncs * WARP + self.lane

    def gather(self, number, lanes):
        value = self.v[number]
        return value[lanes.index] if value.ndim else np.full(lanes.count, value)

    def put(self, number, value, lanes):
        np.copyto(self.v[number], value, casting="unsafe", where=lanes.where)

    def whole_warps(self, lanes, mask=None):
        """Refuses an exchange by less than the lanes of its mask."""
        runs = lanes.mask.reshape(-1, WARP)
        bits = (runs * (1 << np.arange(WARP, dtype=np.int64))).sum(1)
        wanted = 0xFFFFFFFF if mask is None else self.v[mask].astype(np.int64)
        wanted = np.broadcast_to(wanted, self.lanes)[lanes.index]
        if (wanted & ~bits[self.warp_number[lanes.index]]).any() or not (wanted >> self.lane[lanes.index] & 1).all():
            raise Refused("an exchange by less than the lanes of its mask")

    def run(self):
        groups, waiting, steps = {0: np.ones(self.lanes, bool)}, {}, 0

        def go(to, mask):
            groups[to] = groups[to] | mask if to in groups else mask

        while groups or waiting:
            if not groups:
                groups, waiting = self.pass_barrier(waiting), {}
            at = min(groups)
            mask = groups.pop(at)
            lanes = Lanes(mask)
            straight, (how, guard, target, said), after = self.kernel.blocks[at]
            steps += 1
            if steps > MOST_STEPS:
                raise Refused("does not end")
            try:
                for function, only, said_here in straight:
                    said = said_here
                    chosen = lanes if only is None else Lanes(mask & (self.v[only[0]] ^ only[1]))
                    if chosen.count:
                        function(self, chosen)
            except Refused as why:
                raise Refused(f"{why}, in: {said}") from None
            taken = mask if guard is None else mask & (self.v[guard[0]] ^ guard[1])
            if how in ("bra", "next"):
                if guard is None or taken.any():
                    go(target, taken)
            elif how == "bar" and taken.any():
                waiting[after] = waiting[after] | taken if after in waiting else taken
            if guard is not None and (mask & ~taken).any():
                go(after, mask & ~taken)

    def pass_barrier(self, waiting):
        for mask in waiting.values():
            count = mask.reshape(self.blocks, -1).sum(1)
            if ((count != 0) & (count != self.threads)).any():
                raise Refused("a barrier that not all threads of a block reach")
            self.tag = self.tag + 64 * mask
        return waiting


def launch(kernel, memory, grid, threads, arguments):
    """Blocks LANES / threads at a time; arguments are bytes."""
    parameters = np.zeros(PARAMETER_BYTES * len(arguments), np.uint8)
    for (at, size), said in zip(kernel.parameters.values(), arguments):
        parameters[at : at + size] = np.frombuffer(said, np.uint8)
    if not 0 < threads <= kernel.most_threads or threads % WARP or not 0 < grid < 1 << 31:
        raise Refused(f"{grid} blocks of {threads} threads")
    each = max(1, LANES // threads)
    with np.errstate(all="ignore"):
        for first in range(0, grid, each):
            Batch(kernel, memory, parameters, first, min(each, grid - first), grid, threads).run()
