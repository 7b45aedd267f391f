#!/usr/bin/env python3
"""A Hugging Face MoE model: how transformers multiplies by experts

    pip install moetune-*.whl torch "transformers>=5"    # of moetune: `make wheel`
    python3 hf-moe.py --check
    moetune tune --space hf-moe.space --exec "python3 hf-moe.py" --ranks 1 \
        --shape "E=8 k=2 T=512 D=128 H=256 dtype=f32 act=swiglu" --budget 5m

The program is one process, on a GPU if torch finds one, else on cores.  The model is small, with
random weights.  --family is mixtral or qwen3_moe, and model_of() has what --shape does not say.

To tune your own model, build it in model_of().  Before each call your trainer then runs

    answer = view.plan(tokens, 1 if model.training else 0)    # of moelookup: bind(space="hf-moe")
    model.set_experts_implementation(answer["experts"])

--check first compares logits and every gradient with those of eager, on fresh numbers; it may stand
in --exec, too.  Without moetune the program runs one plan, and its last line is a verdict.  --plan
"experts=grouped_mm" chooses that plan.
"""

import argparse
import itertools

try:
    import moetune
    import moetune.torch
    import torch
    import transformers
except ImportError as missing:
    raise SystemExit(f"hf-moe: {missing}: pip install what the head of hf-moe.py says")

USUAL = "E=8 k=2 T=512 D=128 H=256 dtype=f32 act=swiglu"  # where moetune names no layer
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
OFF_BY = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}  # of the norm: what rounding may change
ACTIVATIONS = {"swiglu": "silu"}  # the experts of these models have gates
FAMILIES = {"mixtral": "MixtralConfig", "qwen3_moe": "Qwen3MoeConfig"}
WORDS, LONGEST = 512, 256  # size of the vocabulary, and tokens of the longest text
IN_A_ROW = 8  # steps of one kind, so that few of them find caches of another kind


class Unsupported(Exception):
    """A plan that cannot run here."""


def model_of(shape, family, device):
    """Builds a model of `layers` blocks with the experts of `shape`."""
    if shape["act"] not in ACTIVATIONS:
        raise SystemExit(f"hf-moe: act={shape['act']}: the experts of {family} are swiglu")
    named = {"mixtral": "num_local_experts", "qwen3_moe": "num_experts"}[family]
    inner = {"mixtral": "intermediate_size", "qwen3_moe": "moe_intermediate_size"}[family]
    config = found(transformers, FAMILIES[family])(
        **{named: shape["E"], inner: shape["H"]},
        vocab_size=WORDS,
        hidden_size=shape["D"],
        hidden_act=ACTIVATIONS[shape["act"]],
        num_experts_per_tok=shape["k"],
        num_hidden_layers=shape.get("layers", 1),
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=max(shape["D"] // 4, 8),
        max_position_embeddings=LONGEST,
    )
    model = found(transformers, "AutoModelForCausalLM").from_config(config)
    found(model, "set_experts_implementation")
    return model.to(device, DTYPES[shape["dtype"]])


def found(where, name):
    """Returns a name that transformers has since 5.0, or ends the program."""
    if hasattr(where, name):
        return getattr(where, name)
    raise SystemExit(
        f"hf-moe: transformers {transformers.__version__} has no {name}, which this program calls; "
        "5.24 has it"
    )


def texts_of(tokens, device):
    """Returns random tokens, in texts of the same length."""
    long = next(n for n in range(min(tokens, LONGEST), 0, -1) if tokens % n == 0)
    return torch.randint(WORDS, (tokens // long, long), device=device)


def step(model, texts, training):
    with torch.set_grad_enabled(training):
        logits = model(texts, use_cache=False).logits
    if training:
        model.zero_grad()
        logits.float().square().mean().backward()
    return logits


def use(model, experts):
    try:
        model.set_experts_implementation(experts)
    except (ValueError, ImportError) as why:
        raise Unsupported(str(why).split("\n")[0])


def results(model, experts, texts, training):
    use(model, experts)
    logits = step(model, texts, training)
    yield "logits", logits.detach()
    for name, weights in model.named_parameters() if training else ():
        if weights.grad is not None:
            yield f"gradient of {name}", weights.grad.clone()


def check(model, plan, texts, training, most):
    """Raises Unsupported if the plan gives other results than eager.

    Some gradients cancel, such as those of the query of one token, and are only rounding.  So the
    difference is compared with 0.1 % of the largest gradient at least.
    """
    expected = dict(results(model, "eager", texts, training))
    got = dict(results(model, plan["experts"], texts, training))
    if got.keys() != expected.keys():
        raise Unsupported(f"wrong: it gives no {min(got.keys() ^ expected.keys())}")
    least = 1e-3 * max(right.norm() for right in list(expected.values())[training:]).item()
    for name, right in expected.items():
        off = ((got[name] - right).norm() / right.norm().clamp(min=least)).item()
        if not off <= most:
            raise Unsupported(f"wrong: {name} is off by {off:.2g} (seed {torch.initial_seed()})")


def main(options):
    torch.seed()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape = dict(moetune.words(USUAL), **asker.layer)
    model = model_of(shape, options.family, device)
    right = wrong = 0
    tokens = options.tokens or [1, 8, 64, shape["T"]]
    row = 1 if options.check or asker.by_hand else IN_A_ROW
    kinds = [kind for kind in itertools.product(tokens, (False, True)) for _ in range(row)]
    for count, training in itertools.cycle(kinds):
        plan = asker.ask(count, int(training))
        if plan is None:
            break
        texts = texts_of(count, device)
        model.train(training)
        try:
            if options.check:
                check(model, plan, texts, training, OFF_BY[shape["dtype"]])
                right += 1
            use(model, plan["experts"])
            asker.tell(*asker.timed(step, model, texts, training))
        except (Unsupported, NotImplementedError, RuntimeError) as why:
            asker.fail(str(why).split("\n")[0])
            wrong += 1
    asker.close()
    if options.check and asker.by_hand:
        verdict = f"right: all {right} steps gave"
        if wrong:
            verdict = f"WRONG: {wrong} of {right + wrong} steps did not give"
        print(verdict, "what eager gives", flush=True)
        raise SystemExit(wrong > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="*", help="of a call, in turn (1, 8, 64, T)")
    parser.add_argument("--family", choices=sorted(FAMILIES), default="mixtral")
    parser.add_argument("--check", action="store_true", help="compare every plan with eager")
    parser.add_argument("--plan", default="experts=eager")
    parser.add_argument("--steps", type=int, default=8, help="without moetune, under --plan")
    main(parser.parse_args())
