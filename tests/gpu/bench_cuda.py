#!/usr/bin/env python3
"""The CUDA kernels against what PyTorch users write instead, on the same tensors and stream, by turns.

    tests/gpu/bench_cuda.py build/gpu/tests/libcuda_kernels.so [JSON]
    tests/gpu/bench_cuda.py build/gpu/tests/libcuda_kernels.so --layouts

Every pair is compared value by value before it is timed.  Says so and ends well where torch or a GPU is not.  --layouts
only builds the arguments of each kernel once, which needs neither.
"""
import ctypes as c
import json
import os
import statistics
import sys

lib = c.CDLL(sys.argv[1])
results = []


class Layout(c.Structure):
    _fields_ = [("structure", c.c_char_p), ("field", c.c_char_p), ("offset", c.c_size_t), ("bytes", c.c_size_t)]


def read_layouts():
    """{structure: {field: (offset, bytes)}}, as the library was compiled; the field "" is the whole structure."""
    rows, layouts, i = (Layout * 4096).in_dll(lib, "kernel_layouts"), {}, 0
    while rows[i].structure:
        fields = layouts.setdefault(rows[i].structure.decode(), {})
        fields[rows[i].field.decode()] = rows[i].offset, rows[i].bytes
        i += 1
    return layouts


LAYOUTS = read_layouts()


def make(structure, **values):
    """The bytes of a structure: numbers and the bytes of other structures where they belong, 0 elsewhere."""
    fields = LAYOUTS[structure]
    room = c.create_string_buffer(fields[""][1])
    for name, value in values.items():
        offset, size = fields[name.rstrip("_")]
        value = value.raw if hasattr(value, "raw") else int(value or 0).to_bytes(size, "little")
        if len(value) != size:
            sys.exit(f"{structure}.{name}: {len(value)} bytes, not {size}")
        room[offset : offset + size] = value
    return room


def queue_of(stream=0, scratch=0, scratch_bytes=0, blas=0, workspace=0):
    return make("cuda_queue", stream=stream, scratch=scratch, scratch_bytes=scratch_bytes, blas=blas,
                blas_workspace=workspace)


def route_of(T, E, k, logits=0, gate=0, expert=0, slot=0, needed=0):
    return make("route", tokens=T, experts=E, top_k=k, capacity=1 << 62, logits=logits, gate=gate, expert=expert,
                slot=slot, needed=needed)


def routing_of(T, E, k, D, rows, expert=0, slot=0, needed=0):
    return make("routing", tokens=T, experts=E, top_k=k, width=D, rows=rows, capacity=rows, expert=expert, slot=slot,
                needed=needed)


def encode_of(routing, x=0, home=0):
    return make("encode", routing=routing, dtype=BF16, from_=x, to=home)


def encode_backward_of(routing, home=0, y=0):
    return make("encode_backward", routing=routing, dtype=BF16, from_=home, to=y)


def decode_of(routing, gate=0, home=0, y=0):
    return make("decode", routing=routing, dtype=BF16, gate=gate, from_=home, to=y)


def product_of(E, rows, D, H, x=0, w=0, y=0):
    """y (E,rows,H) = x (E,rows,D) times w (E,H,D) transposed."""
    return make("gemm", dtype=BF16, transpose_b=True, batch=E, m=rows, n=H, k=D, a=x, b=w, c=y, stride_a=rows * D,
                stride_b=H * D, stride_c=rows * H)


def reindex_of(T, E, k, expert=0, slot=0, needed=0, first=0, choice=0):
    return make("reindex", tokens=T, experts=E, top_k=k, capacity=1 << 62, expert=expert, slot=slot, needed=needed,
                first=first, choice=choice)


def esmm_of(T, E, k, D, H, x=0, w=0, y=0, expert=0, slot=0, first=0, choice=0):
    """y (N,H): each kept choice's token of x (T,D) times its expert's w (E,H,D) transposed."""
    at = make("kept_rows", tokens=T, experts=E, top_k=k, token_type=BF16, dtype=BF16, hidden=H, width=D,
              capacity=1 << 62, expert=expert, slot=slot, first=first, choice=choice)
    return make("esmm", at=at, weights=w, tokens=x, pre=y)


BF16 = 2
# A field that the library does not have, or one of another size, ends the program here: before anything runs.
nothing = routing_of(1, 1, 1, 1, 1)
all_of_them = [queue_of(), route_of(1, 1, 1), encode_of(nothing), encode_backward_of(nothing), decode_of(nothing),
               product_of(1, 1, 1, 1), reindex_of(1, 1, 1), esmm_of(1, 1, 1, 1, 1)]
if sys.argv[2:] == ["--layouts"]:
    print(f"{len(all_of_them) + 1} structures, {sum(len(room) for room in all_of_them)} bytes")
    sys.exit(0)

try:
    import torch
except ImportError:
    print("skipped: no torch in this Python")
    sys.exit(0)
if not torch.cuda.is_available():
    print("skipped: torch sees no GPU")
    sys.exit(0)

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 25))
SHAPES = [  # name, T, D, H, E, k
    ("Tutel", 16384, 2048, 2048, 8, 2),
    ("Mixtral", 16384, 4096, 14336, 8, 2),
    ("DeepSeek-V3", 16384, 7168, 2048, 256, 8),
]


def cuda(name, args, queue):
    status = getattr(lib, "cuda_" + name)(c.byref(args), c.byref(queue))
    if status:
        sys.exit(f"cuda_{name}: status {status}")


def timed(work):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def duel(what, shape, ours, theirs, rival, wanted):
    ours(), theirs()
    a, b = [], []
    for i in range(ROUNDS):
        for who in ((a, ours), (b, theirs)) if i % 2 else ((b, theirs), (a, ours)):
            who[0].append(timed(who[1]))
    ratios = sorted(y / x for x, y in zip(a, b))
    outside = max(0, int((ROUNDS - 1.96 * ROUNDS**0.5) / 2))  # on each side of a 95 % interval of the median
    low, high = ratios[outside], ratios[-1 - outside]
    row = dict(what=what, shape=shape, rival=rival, us=statistics.median(a), rival_us=statistics.median(b),
               speed=statistics.median(ratios), low=low, high=high, wanted=wanted)
    results.append(row)
    print(f"{what:<18} {shape:<12} {row['us']:10.1f} us {row['rival_us']:10.1f} us  {row['speed']:6.2f} "
          f"[{low:.2f}, {high:.2f}] of {rival:<28} {wanted:5.2f} {'' if high >= wanted else 'BELOW'}", flush=True)
    if len(sys.argv) > 2:  # whole after each row
        with open(sys.argv[2] + ".new", "w") as f:
            json.dump(results, f, indent=1)
        os.replace(sys.argv[2] + ".new", sys.argv[2])


def same(what, got, want):
    if not torch.allclose(got.float(), want.float(), rtol=2e-2, atol=2e-2):
        sys.exit(f"{what}: differs from torch by {(got.float() - want.float()).abs().max().item()}")


def sparse(name, T, D, H, E, k, queue):
    """Rows as routing leaves them: ours gathers tokens on the way, the others get them gathered."""
    dev = "cuda"
    logits = torch.randn(T, E, device=dev)
    gate, expert = torch.empty(T, k, device=dev), torch.empty(T, k, dtype=torch.int32, device=dev)
    slot, needed, first, choice = (torch.empty(n, dtype=torch.int64, device=dev) for n in (T * k, E, E + 1, T * k))
    cuda("route", route_of(T, E, k, logits.data_ptr(), gate.data_ptr(), expert.data_ptr(), slot.data_ptr(),
                           needed.data_ptr()), queue)
    cuda("reindex", reindex_of(T, E, k, expert.data_ptr(), slot.data_ptr(), needed.data_ptr(), first.data_ptr(),
                               choice.data_ptr()), queue)
    x = torch.randn(T, D, device=dev, dtype=torch.bfloat16)
    w = torch.randn(E, H, D, device=dev, dtype=torch.bfloat16)
    y, z = (torch.empty(T * k, H, device=dev, dtype=torch.bfloat16) for _ in range(2))
    rows, offs, ends = x.index_select(0, choice // k), first[1:].to(torch.int32), first.tolist()
    args = esmm_of(T, E, k, D, H, x.data_ptr(), w.data_ptr(), y.data_ptr(), expert.data_ptr(), slot.data_ptr(),
                   first.data_ptr(), choice.data_ptr())

    def loop():
        for e in range(E):
            torch.mm(rows[ends[e] : ends[e + 1]], w[e].t(), out=z[ends[e] : ends[e + 1]])

    def grouped():
        return torch._grouped_mm(rows, w.transpose(1, 2), offs=offs)

    ours = lambda: cuda("esmm", args, queue)
    ours(), loop()
    if not torch.allclose(y.float(), z.float(), rtol=2e-2, atol=1.0):
        sys.exit("esmm: differs from torch.mm")
    duel("esmm", name, ours, loop, "a loop of mm, gathered", 0)
    try:  # newer versions of torch have it, for some GPUs
        if not torch.allclose(grouped().float(), z.float(), rtol=2e-2, atol=1.0):
            sys.exit("torch._grouped_mm: differs from torch.mm")
        duel("esmm", name, ours, grouped, "_grouped_mm, gathered", 0)
    except (AttributeError, RuntimeError) as error:
        print(f"no torch._grouped_mm here: {str(error).splitlines()[0]}", flush=True)


def tokens(name, T, D, E, k, queue):
    dev = "cuda"
    logits = torch.randn(T, E, device=dev)
    best, before = torch.topk(logits, k).values, logits.clone()
    gate, expert = torch.empty(T, k, device=dev), torch.empty(T, k, dtype=torch.int32, device=dev)
    slot, needed = (torch.empty(n, dtype=torch.int64, device=dev) for n in (T * k, E))
    cuda("route", route_of(T, E, k, logits.data_ptr(), gate.data_ptr(), expert.data_ptr(), slot.data_ptr(),
                           needed.data_ptr()), queue)
    torch.cuda.synchronize()
    if not torch.equal(before.gather(1, expert.long()), best):  # by value: torch orders ties as it likes
        sys.exit("route: not the experts that torch.topk chooses")
    rows = int(needed.max())
    routing = routing_of(T, E, k, D, rows, expert.data_ptr(), slot.data_ptr(), needed.data_ptr())
    x = torch.randn(T, D, device=dev, dtype=torch.bfloat16)
    home, y = torch.empty(E * rows, D, device=dev, dtype=torch.bfloat16), torch.empty_like(x)
    # What a user of torch precomputes from the routing: row -> token (empty rows point at a row of zeros).
    row_of = expert.long().view(-1) * rows + slot
    token_of = torch.full((E * rows,), T, device=dev)
    token_of[row_of] = torch.arange(T, device=dev).repeat_interleave(k)
    padded = torch.cat([x, torch.zeros(1, D, device=dev, dtype=x.dtype)])
    weight = gate.to(torch.bfloat16).unsqueeze(-1)
    encode = lambda: cuda("encode", encode_of(routing, x.data_ptr(), home.data_ptr()), queue)
    encode()
    want = padded.index_select(0, token_of)
    if not torch.equal(home, want):
        sys.exit("encode: not the rows that torch gathers")
    duel("encode", name, encode, lambda: torch.index_select(padded, 0, token_of, out=want), "index_select", 1.25)

    decode = lambda: cuda("decode", decode_of(routing, gate.data_ptr(), want.data_ptr(), y.data_ptr()), queue)
    gather = lambda: (want.index_select(0, row_of).view(T, k, D) * weight).sum(1)
    decode()
    same("decode", y, gather())
    duel("decode", name, decode, gather, "index_select * gate, sum", 1.25)

    flat = token_of.clamp(max=T - 1)
    back = lambda: cuda("encode_backward",
                        encode_backward_of(routing, want.data_ptr(), y.data_ptr()), queue)
    back()
    same("encode backward", y, torch.zeros(T, D, device=dev).index_add_(0, flat, want.float()))
    duel("encode backward", name, back, lambda: torch.zeros_like(x).index_add_(0, flat, want), "zeros, index_add_",
         1.25)


def experts(name, E, rows, D, H, queue):
    x = torch.randn(E, rows, D, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(E, H, D, device="cuda", dtype=torch.bfloat16)
    y, z = (torch.empty(E, rows, H, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    args = product_of(E, rows, D, H, x.data_ptr(), w.data_ptr(), y.data_ptr())
    ours = lambda: cuda("gemm", args, queue)
    theirs = lambda: torch.bmm(x, w.transpose(1, 2), out=z)
    ours(), theirs()
    if not torch.allclose(y.float(), z.float(), rtol=2e-2, atol=1.0):
        sys.exit("gemm: differs from torch.bmm")
    duel("experts' product", name, ours, theirs, "bmm", 1.00)


def main():
    scratch = torch.empty(16 << 20, dtype=torch.uint8, device="cuda")
    workspace = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
    blas = c.c_void_p()
    if lib.cuda_blas_open(c.byref(blas)):
        sys.exit(1)
    queue = queue_of(torch.cuda.current_stream().cuda_stream, scratch.data_ptr(), scratch.numel(), blas.value,
                     workspace.data_ptr())
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    print(f"{'what':<18} {'shape':<12} {'ours':>13} {'torch':>13}  speed")
    for name, T, D, H, E, k in SHAPES:
        sparse(name, T, D, H, E, k, queue)
        torch.cuda.empty_cache()
    for name, T, D, H, E, k in SHAPES:
        tokens(name, T, D, E, k, queue)
        torch.cuda.empty_cache()
        experts(name, E, T * k // E, D, H, queue)
        torch.cuda.empty_cache()
    return 3 if any(r["high"] < r["wanted"] for r in results) else 0


sys.exit(main())
