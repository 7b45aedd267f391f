"""PTX's instructions, as far as our kernels have them.  A decoder makes of a kernel, an instruction's words and
operands what runs: a function of a batch and of the lanes that take part.  What none knows is an error."""
import re

import numpy as np

from machine import PARAMETERS_AT, WARP, Refused

DECODERS = {}


def dtype_of(word):
    """Of u32, f64, pred ...; what is only bits is unsigned."""
    if word == "pred":
        return np.dtype(bool)
    bits = int(word.lstrip("bfsu"))
    return np.dtype({"f": "f", "s": "i"}.get(word[0], "u") + str(bits // 8))


def bare(operand):
    return operand.strip("[]{}").strip()


def listed(operand):
    return [o.strip() for o in bare(operand).split(",")]


def split_operands(text):
    return [o.strip() for o in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", text)]


def decodes(*names):
    def keep(function):
        for name in names:
            DECODERS[name] = function
        return function

    return keep


def is_executed(words):
    """Whether all modifiers are: what changes a result and would be passed over must not run."""
    unknown = {"relu", "rz", "rp", "NaN", "xorsign", "satfinite", "cc"} & set(words)
    saturates = words[0] == "cvt" and words[-2] in ("f16", "f32") and words[-1] != "bf16"
    return not unknown and ("rm" not in words or words[0] in ("fma", "mad")) and ("sat" not in words or saturates)


def called(function, to, *of):
    """A function of numpy's that knows `out` and `where`."""

    def run(b, lanes):
        function(*[b.v[n] for n in of], out=b.v[to], where=lanes.where, casting="unsafe")

    return run


def computed(function, to, *of):
    """Any other one, of all lanes' values."""

    def run(b, lanes):
        b.put(to, function(*[b.v[n] for n in of]), lanes)

    return run


def float_down(x):
    """The largest f32 that is not above."""
    y = np.asarray(x).astype(np.float32)
    return np.where(y > x, np.nextafter(y, np.float32(-np.inf)), y)


def fused(a, b, c):
    return np.multiply(a, b, dtype=np.float64) + c


def flushed(x):
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def bfloat(x):
    """The 16 bits of f32 values, rounded to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FFF), rounded).astype(np.uint16)


def half(x):
    return np.asarray(x).astype(np.float16).view(np.uint16)


def shifted(function):
    def run(x, count):
        bits = x.dtype.itemsize * 8
        y = function(x, np.minimum(count, bits - 1).astype(x.dtype))
        beyond = y >> x.dtype.type(bits - 1) if x.dtype.kind == "i" else x.dtype.type(0)
        return np.where(count < bits, y, beyond)

    return run


def ones(x):
    return np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(-1, x.dtype.itemsize), axis=1).sum(1)


def reversed_bits(x):
    bits = np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    return np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(np.uint32).ravel()


def leading_zeros(x):
    return np.where(x == 0, 0xFFFFFFFF, 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64))


def truncated(x, y):
    """A quotient as C has it."""
    quotient = np.abs(x) // np.abs(y)
    return np.where((x < 0) != (y < 0), -quotient, quotient)


@decodes("add", "sub", "mul", "min", "max", "div", "rem", "and", "or", "xor")
def binary(k, words, operands):
    name, word = words[0], words[-1]
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
                "xor": np.bitwise_xor, "rem": np.remainder, "div": np.floor_divide, "min": np.minimum,
                "max": np.maximum}[name]
    if word[0] == "f":
        function = {"div": np.divide, "min": np.fmin, "max": np.fmax}.get(name, function)
    of = [k.number(o, word) for o in operands[1:3]]
    if name == "mul" and "hi" in words:
        raise NotImplementedError(".".join(words))
    if name in ("div", "rem") and word[0] == "s":
        if name == "rem":
            raise NotImplementedError(".".join(words))
        return computed(truncated, k.number(operands[0], word), *of)
    if "wide" in words:
        wide = word[0] + str(2 * int(word[1:]))
        dtype = dtype_of(wide)
        return computed(lambda x, y: np.multiply(x, y, dtype=dtype), k.number(operands[0], wide), *of)
    return called(function, k.number(operands[0], word), *of)


@decodes("not", "neg", "abs")
def unary(k, words, operands):
    function = {"not": np.invert, "neg": np.negative, "abs": np.absolute}[words[0]]
    return called(function, k.number(operands[0], words[-1]), k.number(operands[1], words[-1]))


@decodes("shl", "shr")
def shift(k, words, operands):
    function = shifted(np.left_shift if words[0] == "shl" else np.right_shift)
    return computed(function, *[k.number(o, t) for o, t in zip(operands, (words[-1], words[-1], "u32"))])


@decodes("fma", "mad")
def multiply_add(k, words, operands):
    word = words[-1]
    if words[0] == "mad" and words[1] != "lo" or word == "f64":
        raise NotImplementedError(".".join(words))
    function = fused if word == "f32" else lambda a, b, c: a * b + c
    if "rm" in words:
        function = lambda a, b, c: float_down(fused(a, b, c))
    return computed(function, *[k.number(o, word) for o in operands])


@decodes("ex2", "rcp", "brev", "popc", "bfind", "sqrt")
def function_of_one(k, words, operands):
    function = {"ex2": np.exp2, "rcp": np.reciprocal, "sqrt": np.sqrt, "brev": reversed_bits, "popc": ones,
                "bfind": leading_zeros}[words[0]]
    if words[0] == "bfind" and words[1] != "shiftamt":
        raise NotImplementedError(".".join(words))
    if "ftz" in words:
        return computed(lambda x: flushed(function(flushed(x))), *[k.number(o, words[-1]) for o in operands])
    to = "u32" if words[0] in ("popc", "bfind", "brev") else words[-1]
    return computed(function, k.number(operands[0], to), k.number(operands[1], words[-1]))


@decodes("bfi")
def insert_bits(k, words, operands):
    def function(x, into, at, count):
        mask = ((np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)) << at.astype(np.uint64)
        return (x.astype(np.uint64) << at.astype(np.uint64)) & mask | into & ~mask

    word = words[-1]
    types = [word, word, word, "u32", "u32"]
    return computed(function, *[k.number(o, t) for o, t in zip(operands, types)])


@decodes("setp")
def compare(k, words, operands):
    """Of floats what is not ordered compares as no, but by a word that ends with u as yes."""
    relations = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
                 "ne": np.not_equal, "neu": np.not_equal, "nan": lambda x, y: np.isnan(x) | np.isnan(y),
                 "ltu": lambda x, y: ~(x >= y), "leu": lambda x, y: ~(x > y), "gtu": lambda x, y: ~(x <= y),
                 "geu": lambda x, y: ~(x < y)}
    if len(words) != 3 or (words[1] == "ne" and words[2][0] == "f"):
        raise NotImplementedError(".".join(words))
    of = [k.number(o, words[2]) for o in operands[1:]]
    return computed(relations[words[1]], k.number(operands[0], "pred"), *of)


@decodes("selp")
def select(k, words, operands):
    of = [k.number(operands[3], "pred")] + [k.number(o, words[1]) for o in operands[1:3]]
    return computed(np.where, k.number(operands[0], words[1]), *of)


@decodes("mov")
def move(k, words, operands):
    word = words[1]
    packs, unpacks = (o.startswith("{") for o in (operands[1], operands[0]))
    if not packs and not unpacks:
        return computed(lambda x: x, k.number(operands[0], word), k.number(operands[1], word))
    names = listed(operands[packs])
    part = f"b{int(word[1:]) // len(names)}"
    parts, whole = [k.number(o, part) for o in names], k.number(operands[unpacks], word)

    def pack(b, lanes):
        values = [np.broadcast_to(b.v[n], b.lanes) for n in parts]
        b.put(whole, np.stack(values, 1).view(b.v[whole].dtype).ravel(), lanes)

    def unpack(b, lanes):
        values = np.broadcast_to(b.v[whole], b.lanes).copy().view(dtype_of(part)).reshape(b.lanes, -1)
        for i, n in enumerate(parts):
            b.put(n, values[:, i], lanes)

    return pack if packs else unpack


@decodes("cvta")
def same_address(k, words, operands):
    return computed(lambda x: x, k.number(operands[0], "u64"), k.number(operands[1], "u64"))


@decodes("cvt")
def convert(k, words, operands):
    to, of = words[-2], words[-1]
    if to in ("f16x2", "bf16x2"):
        round_to = half if to == "f16x2" else bfloat

        def two(high, low):
            return np.stack(np.broadcast_arrays(round_to(low), round_to(high)), 1).view(np.uint32).ravel()

        return computed(two, k.number(operands[0], "b32"), *[k.number(o, of) for o in operands[1:]])
    if to == "bf16":
        return computed(bfloat, k.number(operands[0], "b16"), k.number(operands[1], of))
    if of == "bf16":
        widened = lambda x: (x.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return computed(widened, k.number(operands[0], to), k.number(operands[1], "b16"))
    function = lambda x: x
    if "sat" in words:
        function = lambda x: np.where(np.isnan(x), np.float32(0), np.clip(x, np.float32(0), np.float32(1)))
    elif of[0] == "f" and to[0] != "f":
        function = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[words[1]]
    return computed(function, k.number(operands[0], to, to=True), k.number(operands[1], of))


# ---- Memory's


def place_of(k, operand):
    base, _, offset = bare(operand).partition("+")
    return base, int(offset or 0)


def number_of_address(k, base):
    """Of global memory 64 bits; of shared memory they may be 32."""
    if base in k.shared:
        return k.number(base, "u64")
    return k.number(base, f"u{8 * k.widths[re.match(r'%?[a-z]+', base)[0]]}")


def moved(address, by):
    return address + address.dtype.type(by & ((1 << 8 * address.dtype.itemsize) - 1))


@decodes("ld")
def load(k, words, operands):
    space, word = next((s for s in ("param", "global", "shared") if s in words), None), words[-1]
    names, size = listed(operands[0]), dtype_of(word).itemsize
    to = [k.number(o, word, to=True) for o in names]
    base, offset = place_of(k, operands[1])
    if space == "param" and base in k.parameters:
        at = k.parameters[base][0] + offset

        def from_parameters(b, lanes):
            for n, value in zip(to, b.parameters[at : at + size * len(to)].view(dtype_of(word))):
                b.put(n, value, lanes)

        return from_parameters
    address = number_of_address(k, base)

    def run(b, lanes):
        at = moved(b.gather(address, lanes), offset)
        if space == "param":
            at = at.astype(np.int64) - PARAMETERS_AT
            values = [b.parameters[(at + i * size)[:, None] + np.arange(size)].view(dtype_of(word))[:, 0]
                      for i in range(len(to))]
        else:
            view = (b.shared if space == "shared" else b.memory).views[size]
            if space == "shared":
                at = b.shared.offsets(at, size * len(to), lanes)
                b.shared.reads(at, size * len(to), lanes)
            else:
                at = b.memory.offsets(at, size * len(to))
            values = [view[at // size + i].view(dtype_of(word)) for i in range(len(to))]
        for n, value in zip(to, values):
            b.v[n][lanes.index] = value

    return run


@decodes("st")
def store(k, words, operands):
    space, word = next(s for s in ("global", "shared") if s in words), words[-1]
    size = dtype_of(word).itemsize
    of = [k.number(o, "b" + word[1:]) for o in listed(operands[1])]
    base, offset = place_of(k, operands[0])
    address = number_of_address(k, base)

    def run(b, lanes):
        at = moved(b.gather(address, lanes), offset)
        if space == "shared":
            at = b.shared.offsets(at, size * len(of), lanes)
            b.shared.writes(at, size * len(of), lanes)
        else:
            at = b.memory.offsets(at, size * len(of))
        view = (b.shared if space == "shared" else b.memory).views[size]
        for i, n in enumerate(of):
            view[at // size + i] = b.gather(n, lanes)

    return run


@decodes("atom")
def atomic(k, words, operands):
    if words[1:] != ["shared", "add", "u32"]:
        raise NotImplementedError(".".join(words))
    to, added = k.number(operands[0], "u32"), k.number(operands[2], "u32")
    base, offset = place_of(k, operands[1])
    address = number_of_address(k, base)

    def run(b, lanes):
        at = b.shared.offsets(moved(b.gather(address, lanes), offset), 4, lanes) // 4
        view, value = b.shared.views[4], b.gather(added, lanes)
        order = np.argsort(at, kind="stable")
        sums = np.cumsum(value[order], dtype=np.uint32) - value[order]
        begins = np.r_[True, np.diff(at[order]) != 0]
        before = np.empty_like(value)
        before[order] = sums - sums[begins][np.cumsum(begins) - 1]
        b.v[to][lanes.index] = view[at] + before
        np.add.at(view, at, value)

    return run


@decodes("cp")
def copy_async(k, words, operands):
    if "commit_group" in words:
        def commit(b, lanes):
            b.shared.group[lanes.index] += 1

        return commit
    if "wait_group" in words:
        but = int(operands[0])
        return lambda b, lanes: b.shared.wait(but, lanes)
    size = int(operands[2])
    if size != 16 and (words[2] != "ca" or size not in (4, 8)):
        raise NotImplementedError(f"{'.'.join(words)} of {size} bytes")
    to, of, there = number_of_address(k, bare(operands[0])), k.number(operands[1], "u64"), k.number(operands[3], "u32")

    def run(b, lanes):
        at = b.shared.offsets(b.gather(to, lanes), size, lanes)
        b.shared.writes(at, size, lanes, pending=True)
        count = b.gather(there, lanes)
        if ((count != 0) & (count != size)).any():
            raise Refused(f"copies {count.max()} of {size} bytes")
        full = count == size
        brought = np.zeros((len(at), size), np.uint8)
        if full.any():
            brought[full] = b.memory.bytes[b.memory.offsets(b.gather(of, lanes)[full], size)[:, None] + np.arange(size)]
        b.shared.bytes[at[:, None] + np.arange(size)] = brought

    return run


# ---- Warps'


@decodes("bar")
def warp_barrier(k, words, operands):
    if words[:3] != ["bar", "warp", "sync"]:
        raise NotImplementedError(".".join(words))
    mask = k.number(operands[0], "u32")

    def run(b, lanes):
        b.whole_warps(lanes, mask)
        b.syncs[lanes.index] += 1

    return run


def exchange(to, mask, function, *of):
    """A function of what the lanes of warps bring, (warps, lanes) each; who does not take part brings anything."""

    def run(b, lanes):
        b.whole_warps(lanes, mask)
        brought = [np.broadcast_to(b.v[n], b.lanes).reshape(-1, WARP) for n in of]
        result = function(lanes.mask.reshape(-1, WARP), *brought)
        for n, value in zip(to, result if isinstance(result, tuple) else (result,)):
            b.put(n, np.broadcast_to(value, (b.lanes // WARP, WARP)).ravel(), lanes)

    return run


def bits_of(runs, yes):
    return ((runs & yes) * (1 << np.arange(WARP, dtype=np.uint64))).sum(-1, dtype=np.uint64).astype(np.uint32)


@decodes("vote")
def vote(k, words, operands):
    if words[2] != "ballot":
        raise NotImplementedError(".".join(words))
    to, mask = [k.number(operands[0], "b32")], k.number(operands[2], "u32")
    return exchange(to, mask, lambda runs, yes: bits_of(runs, yes)[:, None], k.number(operands[1], "pred"))


@decodes("match")
def match(k, words, operands):
    def function(runs, x):
        return bits_of(runs[:, None, :], x[:, :, None] == x[:, None, :])

    to, mask = [k.number(operands[0], "b32")], k.number(operands[2], "u32")
    return exchange(to, mask, function, k.number(operands[1], "b32"))


@decodes("redux")
def reduction(k, words, operands):
    function, start = {"max": (np.max, 0), "min": (np.min, 0xFFFFFFFF)}[words[2]]

    def run(runs, x):
        return function(np.where(runs, x, np.uint32(start)), axis=1)[:, None]

    return exchange([k.number(operands[0], "u32")], k.number(operands[2], "u32"), run, k.number(operands[1], "u32"))


@decodes("shfl")
def shuffle(k, words, operands):
    lane = np.arange(WARP)

    def function(runs, x, by, limits):
        by, limits = by.astype(np.int64) & 31, limits.astype(np.int64)
        segment, clamp = limits >> 8 & 31, limits & 31
        least, most = lane & segment, (lane & segment) | (clamp & ~segment)
        at = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": least | (by & ~segment)}[words[2]]
        inside = at >= most if words[2] == "up" else at <= most
        at = np.where(inside, at, lane)
        if not np.take_along_axis(runs, at, 1)[runs].all():
            raise Refused("a shuffle from a lane that takes no part")
        return np.take_along_axis(x, at, 1), inside

    to = operands[0].split("|")
    to = [k.number(to[0], "b32")] + [k.number(o, "pred") for o in to[1:]]
    of = [k.number(o, "b32") for o in operands[1:4]]
    return exchange(to, k.number(operands[4], "u32"), function, *of)


@decodes("ldmatrix")
def load_matrices(k, words, operands):
    if "m8n8" not in words or "x4" not in words:
        raise NotImplementedError(".".join(words))
    to = [k.number(o, "b32") for o in listed(operands[0])]
    base, offset = place_of(k, operands[1])
    address = number_of_address(k, base)

    def run(b, lanes):
        b.whole_warps(lanes)
        at = b.shared.offsets(moved(b.gather(address, lanes), offset), 16, lanes)
        b.shared.reads(at, 16, lanes)
        rows = b.shared.wide[at // 16].view(np.uint16).reshape(-1, 4, 8, 8)
        if "trans" in words:
            rows = rows.swapaxes(2, 3)
        for i, n in enumerate(to):
            b.v[n][lanes.index] = np.ascontiguousarray(rows[:, i]).reshape(-1, WARP, 2).view(np.uint32).ravel()

    return run


@decodes("mma")
def multiply_matrices(k, words, operands):
    """As PTX's picture of m16n8k16 says: a lane is (group, in group), a register has a pair."""
    if words[3] != "m16n8k16" or words[7] not in ("f16", "bf16"):
        raise NotImplementedError(".".join(words))
    to, c = ([k.number(o, "f32") for o in listed(operands[i])] for i in (0, 3))
    left_of, right_of = ([k.number(o, "b32") for o in listed(operands[i])] for i in (1, 2))

    def elements(b, numbers, lanes):
        bits = np.stack([b.gather(n, lanes) for n in numbers], 1).view(np.uint16)
        if words[7] == "f16":
            return bits.view(np.float16).astype(np.float32)
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def run(b, lanes):
        b.whole_warps(lanes)
        left = elements(b, left_of, lanes).reshape(-1, 8, 4, 2, 2, 2)  # group, in group, halves of k, of rows, pair
        left = left.transpose(0, 4, 1, 3, 2, 5).reshape(-1, 16, 16)
        right = elements(b, right_of, lanes).reshape(-1, 8, 4, 2, 2)  # group, in group, half of k, pair
        right = right.transpose(0, 3, 2, 4, 1).reshape(-1, 16, 8)
        sums = np.matmul(left, right).reshape(-1, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(-1, 4)
        for i, (n, m) in enumerate(zip(to, c)):
            b.v[n][lanes.index] = b.gather(m, lanes) + sums[:, i]

    return run
