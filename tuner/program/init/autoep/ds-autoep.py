#!/usr/bin/env python3
"""DeepSpeed AutoEP on Hugging Face: autoep_size, experts, chunks

    pip install moetune-*.whl torch deepspeed "transformers>=5,<5.23"    # of moetune: `make wheel`
    torchrun --nproc_per_node 4 ds-autoep.py --check
    moetune tune --space ds-autoep.space --exec "torchrun --nproc_per_node 4 ds-autoep.py" \
        --ranks 4 --shape "E=8 k=2 T=512 D=128 H=256 dtype=f32 act=swiglu" --budget 5m

AutoEP replaces the MoE blocks of a model by layers of its own.  A step is a training step: the
model, and the engine's backward and step, with Adam.  The learning rate is 0, so that the weights
do not change.  The model is a small Mixtral.  To tune your own model, build it in model_of(); on
cores, also put its activation into Model().

autoep_size needs a restart.  The table has one value; your trainer asks once, and writes it into
the member expert_parallel of DeepSpeed's configuration, as this program does.  Before each step it
asks again:

    plan = view.plan(tokens, skew)    # of moelookup: bind(space="ds-autoep")

Then it uses plan["experts"] and plan["chunks"] as set_experts() and step() do here; chunks are
gradient accumulation.  AutoEP's tokens_per_expert has the skew of the step before.  --words 512 4
makes texts of many and of few different words, whose skews differ.

--check compares logits and every gradient with those of the model in transformers, on fresh texts;
it may stand in --exec, too.  Without moetune the program runs one plan, and its last line is a
verdict.  --plan "ep=2 experts=loop chunks=2" chooses that plan.

It ran with DeepSpeed 0.19.8, torch 2.15 and transformers 5.22, on four gloo ranks on cores, in f32.
It has not run on a GPU.
"""

import argparse
import copy
import itertools
import logging
import os
import sys

FIRST = os.environ.get("RANK", "0") == "0"  # rank 0 of torchrun prints for all ranks


def end(failure):
    """Ends the program at once: on cores ranks abort at times while Python ends."""
    if failure and FIRST:
        print(failure, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(failure is not None)


try:
    import moetune
    import moetune.torch
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    import transformers
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    from deepspeed.module_inject.auto_ep_layer import AutoEPMoELayer
    from deepspeed.moe.ep_experts import register_expert_activation
except ImportError as missing:
    end(
        f"ds-autoep: {missing}: it needs torch, transformers 5 and deepspeed, of which 0.19.8 has "
        "all that it calls"
    )

USUAL = "E=8 k=2 T=512 D=128 H=256 dtype=f32 act=swiglu"  # where moetune names no layer
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
OFF_BY = {"f32": 1e-4, "bf16": 5e-2}  # what rounding may change, as a share of the norm
WORDS, LONGEST = 512, 64  # size of the vocabulary, and tokens of the longest text


class Unsupported(Exception):
    """A plan that cannot run here, or gives a wrong result."""


def model_of(shape):
    """Builds a model of `layers` blocks with the experts of `shape`, the same on all ranks."""
    torch.manual_seed(1)
    config = transformers.MixtralConfig(
        num_local_experts=shape["E"],
        intermediate_size=shape["H"],
        vocab_size=WORDS,
        hidden_size=shape["D"],
        num_experts_per_tok=shape["k"],
        num_hidden_layers=shape.get("layers", 1),
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=max(shape["D"] // 4, 8),
        max_position_embeddings=LONGEST,
    )
    return transformers.AutoModelForCausalLM.from_config(config).to(DTYPES[shape["dtype"]])


def set_experts(layer, experts):
    """Changes between two steps what AutoEP reads from its configuration only once."""
    own = layer.experts
    own.use_grouped_mm = experts != "loop"
    own.gate_up_impl = "fused" if experts == "fused" else "separate"
    own.use_triton_grouped_mm = (
        experts == "grouped" and get_accelerator().prefer_triton_grouped_mm()
    )


class Model:
    """The model in DeepSpeed's engine; if `checked` also the same model in transformers."""

    def __init__(self, shape, ep, device, checked):
        self.shape, self.device = shape, device
        model = model_of(shape).to(device)
        self.plain = copy.deepcopy(model) if checked else None
        parallel = {"enabled": True, "autoep_size": ep}
        if device.type == "cpu":
            # AutoEP's kernel for Mixtral's activation is one of Triton, which needs a GPU.
            register_expert_activation("torch_swiglu", lambda gate, up, *_: F.silu(gate) * up)
            parallel["expert_activation"] = "torch_swiglu"
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "Adam", "params": {"lr": 0.0, "torch_adam": True}},
            "bf16": {"enabled": shape["dtype"] == "bf16"},
            "expert_parallel": parallel,
        }
        self.engine = deepspeed.initialize(model=model, config=config, dist_init_required=False)[0]
        self.layers = [one for one in self.engine.modules() if isinstance(one, AutoEPMoELayer)]

    def texts(self, tokens, words):
        """Returns random tokens of so many different words, in texts of the same length."""
        long = next(n for n in range(min(tokens, LONGEST), 0, -1) if tokens % n == 0)
        return torch.randint(min(words, WORDS), (tokens // long, long), device=self.device)

    def skew(self):
        """Returns the largest skew that a layer has counted since the last call."""
        counts = torch.stack([layer.tokens_per_expert for layer in self.layers])
        for layer in self.layers:
            layer.tokens_per_expert.zero_()
        dist.all_reduce(counts)
        return (counts.amax(1) / counts.mean(1)).nan_to_num(0).max().item()  # 0: no token came

    def step(self, texts, plan, look=None):
        """Runs a step.  It calls look() when the engine has averaged the gradients over ranks."""
        for layer in self.layers:
            set_experts(layer, plan["experts"])
        if len(texts) < plan["chunks"]:
            raise Unsupported(f"{len(texts)} texts are fewer than {plan['chunks']} chunks")
        chunks, logits = texts.tensor_split(plan["chunks"]), []
        for chunk in chunks:
            self.engine.set_gradient_accumulation_boundary(len(logits) + 1 == len(chunks))
            given = self.engine(chunk, use_cache=False).logits
            logits.append(given.detach())
            self.engine.backward(given.float().square().sum() / texts.numel())
        if look:
            look()
        self.engine.step()
        return torch.cat(logits)

    def results(self, texts, plan):
        """Returns the results of one step, by name."""
        kept = {}

        def look():
            for name, weight in self.engine.module.named_parameters():
                grad = weight.grad
                if grad is None:
                    grad = deepspeed.utils.safe_get_full_grad(weight)
                kept[f"gradient of {name}"] = grad.clone()

        return {"logits": self.step(texts, plan, look), **kept}

    def expected(self, texts):
        """Returns the results by transformers, under the names of AutoEP's weights.

        Each rank has a share of the experts; gradients of the others are left out.
        """
        logits = self.plain(texts, use_cache=False).logits
        (logits.float().square().sum() / texts.numel()).backward()
        found = {"logits": logits.detach()}
        for name, weight in self.plain.named_parameters():
            grad, weight.grad = weight.grad, None
            dist.all_reduce(grad)
            grad /= dist.get_world_size()
            of, _, what = name.rpartition("experts.")
            own = self.layers[0].num_local_experts
            first = self.layers[0].ep_rank * own
            if what == "gate_up_proj":
                gate, up = grad[first : first + own].chunk(2, dim=1)
                found[f"gradient of {of}experts.w1"] = gate
                found[f"gradient of {of}experts.w3"] = up
            elif what == "down_proj":
                found[f"gradient of {of}experts.w2"] = grad[first : first + own]
            else:
                name = name.replace(".mlp.gate.", ".mlp.router.gate.")
                found[f"gradient of {name}"] = grad
        return found


def check(model, texts, plan):
    """Raises Unsupported on all ranks if one of them finds another result."""
    expected, got = model.expected(texts), model.results(texts, plan)
    if got.keys() != expected.keys():
        raise Unsupported(f"wrong: it gives no {min(got.keys() ^ expected.keys())}")
    off = [(got[n] - e).norm() / e.norm().clamp(min=1e-9) for n, e in expected.items()]
    off = torch.stack(off).float().nan_to_num(float("inf"))
    dist.all_reduce(off, dist.ReduceOp.MAX)
    for name, by in zip(expected, off.tolist()):
        if by > OFF_BY[model.shape["dtype"]]:
            raise Unsupported(f"wrong: {name} is off by {by:.2g} (seed {torch.initial_seed()})")


def why_not(shape, ep):
    """Returns why no step can run; None: steps can run."""
    ranks, experts = dist.get_world_size(), shape["E"]
    if shape["dtype"] not in DTYPES:
        return f"dtype={shape['dtype']}: this program has {' and '.join(DTYPES)}"
    if shape["act"] != "swiglu":
        return f"act={shape['act']}: the experts of Mixtral are swiglu"
    if ranks % ep or experts % ep:
        return f"ep={ep} does not divide both {ranks} ranks and {experts} experts"


def main(options):
    device = moetune.torch.join_ranks()
    deepspeed.utils.logger.setLevel(logging.ERROR)
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape, ep = dict(moetune.words(USUAL), **asker.layer), asker.launch["ep"]
    why = why_not(shape, ep)
    if why:
        return f"ds-autoep: {why}"
    try:
        model = Model(shape, ep, device, options.check)
    except (AttributeError, TypeError, ValueError) as why:
        return (
            f"ds-autoep: AutoEP of deepspeed {deepspeed.__version__} does not take this model of "
            f"transformers {transformers.__version__}: {why}; AutoEP of 0.19.8 takes those of 5.22"
        )
    if not model.layers:
        return "ds-autoep: AutoEP found no MoE block in the model"
    torch.seed()
    kinds = list(itertools.product(options.tokens or [shape["T"]], options.words))
    skews = {}
    for kind in kinds:  # a trainer knows its skew from the step before
        with torch.no_grad():
            model.engine(model.texts(*kind), use_cache=False)
        skews[kind] = model.skew()
    right = wrong = 0
    for kind in itertools.cycle(kinds):
        plan = asker.ask(kind[0], skews[kind])
        if plan is None:
            break
        texts = model.texts(*kind)
        try:
            if options.check:
                check(model, texts, plan)
                right += 1
            asker.tell(*asker.timed(model.step, texts, plan))
        except Unsupported as why:
            asker.fail(str(why))
            wrong += 1
        skews[kind] = model.skew() or skews[kind]
    asker.close()
    dist.destroy_process_group()
    if options.check and asker.by_hand:
        what = "what transformers gives"
        if wrong:
            return f"WRONG: {wrong} of {right + wrong} steps did not give {what}"
        if FIRST:
            print(f"right: all {right} steps gave {what}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="*", help="tokens of a rank, in turn (T)")
    parser.add_argument(
        "--words", type=int, nargs="+", default=[512, 4], help="different words of a text, in turn"
    )
    parser.add_argument("--check", action="store_true", help="compare every plan with transformers")
    parser.add_argument("--plan", default="ep=1 experts=grouped chunks=1")
    parser.add_argument("--steps", type=int, default=6, help="without moetune, under --plan")
    end(main(parser.parse_args()))
