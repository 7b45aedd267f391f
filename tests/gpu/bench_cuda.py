#!/usr/bin/env python3
"""The CUDA kernels against what PyTorch users write instead, on the same tensors and stream, by turns.

    tests/gpu/bench_cuda.py build/gpu/tests/libcuda_kernels.so [JSON]

Every pair is compared value by value before it is timed.  Says so and ends well where torch or a GPU is not.
"""
import ctypes as c
import json
import statistics
import sys

try:
    import torch
except ImportError:
    print("skipped: no torch in this Python")
    sys.exit(0)
if not torch.cuda.is_available():
    print("skipped: torch sees no GPU")
    sys.exit(0)

ROUNDS, BF16 = 25, 2
SHAPES = [  # name, T, D, H, E, k
    ("Tutel", 16384, 2048, 2048, 8, 2),
    ("Mixtral", 16384, 4096, 14336, 8, 2),
    ("DeepSeek-V3", 16384, 7168, 2048, 256, 8),
]


def struct(name, *fields):
    return type(name, (c.Structure,), {"_fields_": list(fields)})


P, U32, U64 = c.c_void_p, c.c_uint32, c.c_uint64
# As kernels/kernels.h and kernels/cuda_kernels.h say.
Queue = struct("Queue", ("stream", P), ("scratch", P), ("scratch_bytes", c.c_size_t), ("blas", P), ("workspace", P))
Route = struct("Route", ("tokens", U32), ("experts", U32), ("top_k", U32), ("capacity", U64), ("logits", P),
               ("gate", P), ("expert", P), ("slot", P), ("needed", P))
Routing = struct("Routing", ("tokens", U32), ("experts", U32), ("top_k", U32), ("width", U32), ("rows", U64),
                 ("capacity", U64), ("expert", P), ("slot", P), ("needed", P))
Encode = struct("Encode", ("routing", Routing), ("dtype", U32), ("from_", P), ("to", P))
EncodeBackward = struct("EncodeBackward", ("routing", Routing), ("dtype", U32), ("from_", P), ("add", P), ("to", P))
Decode = struct("Decode", ("routing", Routing), ("dtype", U32), ("gate", P), ("from_", P), ("to", P))
Gemm = struct("Gemm", ("dtype", U32), ("transpose_a", c.c_bool), ("transpose_b", c.c_bool), ("keep", c.c_bool),
              ("batch", U32), ("m", U64), ("n", U64), ("k", U64), ("a", P), ("b", P), ("c", P),
              ("stride_a", U64), ("stride_b", U64), ("stride_c", U64))

lib = c.CDLL(sys.argv[1])
results = []


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
    low, high = ratios[ROUNDS // 2 - 5], ratios[ROUNDS // 2 + 5]  # 95 % for 25 pairs
    row = dict(what=what, shape=shape, rival=rival, us=statistics.median(a), rival_us=statistics.median(b),
               speed=statistics.median(ratios), low=low, high=high, wanted=wanted)
    results.append(row)
    print(f"{what:<18} {shape:<12} {row['us']:10.1f} us {row['rival_us']:10.1f} us  {row['speed']:6.2f} "
          f"[{low:.2f}, {high:.2f}] of {rival:<28} {wanted:5.2f} {'' if row['speed'] >= wanted else 'BELOW'}")


def same(what, got, want):
    if not torch.allclose(got.float(), want.float(), rtol=2e-2, atol=2e-2):
        sys.exit(f"{what}: differs from torch by {(got.float() - want.float()).abs().max().item()}")


def tokens(name, T, D, E, k, queue):
    dev = "cuda"
    logits = torch.randn(T, E, device=dev)
    best, before = torch.topk(logits, k).values, logits.clone()
    gate, expert = torch.empty(T, k, device=dev), torch.empty(T, k, dtype=torch.int32, device=dev)
    slot, needed = (torch.empty(n, dtype=torch.int64, device=dev) for n in (T * k, E))
    cuda("route", Route(T, E, k, 1 << 62, logits.data_ptr(), gate.data_ptr(), expert.data_ptr(), slot.data_ptr(),
                        needed.data_ptr()), queue)
    torch.cuda.synchronize()
    if not torch.equal(before.gather(1, expert.long()), best):  # by value: torch orders ties as it likes
        sys.exit("route: not the experts that torch.topk chooses")
    rows = int(needed.max())
    routing = Routing(T, E, k, D, rows, rows, expert.data_ptr(), slot.data_ptr(), needed.data_ptr())
    x = torch.randn(T, D, device=dev, dtype=torch.bfloat16)
    home, y = torch.empty(E * rows, D, device=dev, dtype=torch.bfloat16), torch.empty_like(x)
    # What a user of torch precomputes from the routing: row -> token (empty rows point at a row of zeros).
    row_of = expert.long().view(-1) * rows + slot
    token_of = torch.full((E * rows,), T, device=dev)
    token_of[row_of] = torch.arange(T, device=dev).repeat_interleave(k)
    padded = torch.cat([x, torch.zeros(1, D, device=dev, dtype=x.dtype)])
    weight = gate.to(torch.bfloat16).unsqueeze(-1)
    encode = lambda: cuda("encode", Encode(routing, BF16, x.data_ptr(), home.data_ptr()), queue)
    encode()
    want = padded.index_select(0, token_of)
    if not torch.equal(home, want):
        sys.exit("encode: not the rows that torch gathers")
    duel("encode", name, encode, lambda: torch.index_select(padded, 0, token_of, out=want), "index_select", 1.25)

    decode = lambda: cuda("decode", Decode(routing, BF16, gate.data_ptr(), want.data_ptr(), y.data_ptr()), queue)
    gather = lambda: (want.index_select(0, row_of).view(T, k, D) * weight).sum(1)
    decode()
    same("decode", y, gather())
    duel("decode", name, decode, gather, "index_select * gate, sum", 1.25)

    flat = token_of.clamp(max=T - 1)
    back = lambda: cuda("encode_backward",
                        EncodeBackward(routing, BF16, want.data_ptr(), None, y.data_ptr()), queue)
    back()
    same("encode backward", y, torch.zeros(T, D, device=dev).index_add_(0, flat, want.float()))
    duel("encode backward", name, back, lambda: torch.zeros_like(x).index_add_(0, flat, want), "zeros, index_add_",
         1.25)


def experts(name, E, rows, D, H, queue):
    x = torch.randn(E, rows, D, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(E, H, D, device="cuda", dtype=torch.bfloat16)
    y, z = (torch.empty(E, rows, H, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    args = Gemm(BF16, False, True, False, E, rows, H, D, x.data_ptr(), w.data_ptr(), y.data_ptr(), rows * D, H * D,
                rows * H)
    ours = lambda: cuda("gemm", args, queue)
    theirs = lambda: torch.bmm(x, w.transpose(1, 2), out=z)
    ours(), theirs()
    if not torch.allclose(y.float(), z.float(), rtol=2e-2, atol=1.0):
        sys.exit("gemm: differs from torch.bmm")
    duel("experts' product", name, ours, theirs, "bmm", 1.00)


def main():
    scratch = torch.empty(16 << 20, dtype=torch.uint8, device="cuda")
    workspace = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
    blas = P()
    if lib.cuda_blas_open(c.byref(blas)):
        sys.exit(1)
    queue = Queue(torch.cuda.current_stream().cuda_stream, scratch.data_ptr(), scratch.numel(), blas,
                  workspace.data_ptr())
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    print(f"{'what':<18} {'shape':<12} {'ours':>13} {'torch':>13}  speed")
    for name, T, D, H, E, k in SHAPES:
        tokens(name, T, D, E, k, queue)
        torch.cuda.empty_cache()
        experts(name, E, T * k // E, D, H, queue)
        torch.cuda.empty_cache()
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as f:
            json.dump(results, f, indent=1)
    return 3 if any(r["speed"] < r["wanted"] for r in results) else 0


sys.exit(main())
