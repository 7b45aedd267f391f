"""What a PTX file says: its kernels, cut into basic blocks of instructions that a machine's batch can run."""
import re

import numpy as np

from instructions import DECODERS, bare, dtype_of, is_executed, split_operands
from machine import PARAMETER_BYTES, PARAMETERS_AT, SHARED_AT

WIDTHS = {"pred": 1, "b8": 1, "b16": 2, "f16": 2, "b32": 4, "f32": 4, "b64": 8, "f64": 8}


def statements(body):
    """Labels end with a colon; scopes are dropped, since names that come again are used at once."""
    body = re.sub(r"//[^\n]*", "", body)
    at = 0
    pattern = re.compile(r"\s*(?:([{}])|([$\w]+:)|([^;]*);)", re.S)
    while match := pattern.match(body, at):
        at = match.end()
        if match[2] or match[3]:
            yield match[2] or " ".join(match[3].split())


class Kernel:
    """What one .entry says, decoded to functions that take a batch of blocks and the lanes that run them."""

    def __init__(self, name, head, body):
        self.name = name
        self.parameters = {}  # where each begins, and its bytes
        for word, called, count in re.findall(r"\.param .*?\.(\w\d+)\s+(\w+)(?:\[(\d+)\])?", head):
            at = len(self.parameters) * PARAMETER_BYTES
            self.parameters[called] = at, int(count or 1) * dtype_of(word).itemsize
        most = re.search(r"\.maxntid (\d+)", head)
        self.most_threads = int(most[1]) if most else 1024
        self.widths, self.shared, self.shared_bytes = {}, {}, 0
        self.values, self.numbers = [], {}  # what operands are, and the number of each
        self.granule = 16  # the narrowest access to shared memory
        self.code, self.labels = [], {}
        for said in statements(body):
            self.take(said)
        self.blocks = self.cut()

    def take(self, said):
        if said.endswith(":"):
            self.labels[said[:-1]] = len(self.code)
        elif said.startswith(".reg"):
            _, word, names = said.split(None, 2)
            for name in names.split(","):
                self.widths[re.sub(r"<\d+>", "", name.strip())] = WIDTHS[word[1:]]
        elif said.startswith(".shared"):
            name, count = re.search(r"\.b8 (\w+)\[(\d+)\]", said).groups()
            self.shared[name] = self.shared_bytes, int(count)
            self.shared_bytes += (int(count) + 31) // 16 * 16  # and something behind it that is nobody's
        elif not said.startswith("."):
            guard = None
            if said.startswith("@"):
                guard, said = said.split(None, 1)
            op, _, rest = said.partition(" ")
            words = op.split(".")
            if words[0] in ("ld", "st", "atom") and "shared" in words:
                vector = max([1] + [int(w[1]) for w in words if w in ("v2", "v4")])
                self.granule = min(self.granule, vector * dtype_of(words[-1]).itemsize)
            operands = split_operands(rest)
            if words[0] == "cp" and len(operands) > 2:
                self.granule = min(self.granule, int(operands[2]))
            self.code.append((guard, words, operands, said))

    def cut(self):
        """Basic blocks: where each begins, its instructions, how it ends."""
        begins = {0} | set(self.labels.values())
        for i, (_, words, _, _) in enumerate(self.code):
            if words[0] in ("bra", "ret", "exit", "bar") and words[:2] != ["bar", "warp"]:
                begins.add(i + 1)
        blocks = {}
        for begin in begins:
            straight, at = [], begin
            while at < len(self.code):
                guard, words, operands, said = self.code[at]
                if guard:
                    guard = self.number(guard.lstrip("@!"), "pred"), guard[1] == "!"
                at += 1
                if words[0] in ("bra", "ret", "exit") or (words[0] == "bar" and words[1] == "sync"):
                    blocks[begin] = straight, (words[0], guard, self.labels.get(bare((operands or [""])[0])), said), at
                    break
                if words[0] not in DECODERS or not is_executed(words):
                    raise NotImplementedError(said)
                straight.append((DECODERS[words[0]](self, words, operands), guard, said))
                if at in begins:
                    blocks[begin] = straight, ("next", None, at, ""), at
                    break
        return blocks

    # Operands become numbers: places in a batch's list of values.
    def number(self, operand, word, to=False):
        operand = bare(operand)
        dtype = dtype_of(word)
        register = re.match(r"%?[a-z]+", operand)[0] if re.match(r"[%a-z]", operand) else None
        width = self.widths.get(operand, self.widths.get(register))
        if to and dtype.itemsize != width:  # a register that is wider gets all of its bits
            dtype = np.dtype(dtype.kind + str(width))
        key = operand, dtype.str
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append((operand, dtype, width))
        return self.numbers[key]

    def constant(self, operand, dtype):
        """An immediate, or where something begins; None: neither."""
        if operand.startswith(("0f", "0d")):
            bits = int(operand[2:], 16)
        elif operand in self.shared:
            bits = SHARED_AT + self.shared[operand][0]
        elif operand in self.parameters:
            bits = PARAMETERS_AT + self.parameters[operand][0]
        elif re.match(r"-?\d", operand):
            bits = int(operand.rstrip("U"), 0)
        else:
            return None
        if dtype == bool:
            return np.bool_(bits)
        size = dtype.itemsize
        return np.array(bits & ((1 << 8 * size) - 1), f"u{size}").view(dtype)[()]


class Program:
    """The kernels of a file, each decoded when it is asked for."""

    def __init__(self, text):
        self.entries, self.kernels = {}, {}
        for match in re.finditer(r"\.entry (\w+)\(([^{]*)\{(.*?)\n\}\n", text, re.S):
            self.entries[match[1]] = match[2], match[3]

    def kernel(self, name):
        if name not in self.kernels:
            self.kernels[name] = Kernel(name, *self.entries[name])
        return self.kernels[name]
