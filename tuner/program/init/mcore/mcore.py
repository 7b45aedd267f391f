#!/usr/bin/env python3
"""Megatron-Core training: dispatcher, EP, ETP, overlaps (not run)

    pip install moetune-*.whl megatron-core==0.19.2 transformer-engine[pytorch]
    torchrun --nproc_per_node 8 mcore.py
    moetune tune --space mcore.space --exec "torchrun --nproc_per_node 8 mcore.py" \
        --ranks 8 --shape "E=8 k=2 T=4096 D=1024 H=2816 dtype=bf16"

NOT RUN: no step of this program has ever run.  It follows the sources of megatron-core 0.19.2.  A
test shows that its configuration accepts the plans of mcore.space and refuses others, and that its
parser accepts the flags.  Python 3.12 or newer gets that version from pip.  An older Python gets
0.16.1, which has no backends.

Every axis needs a restart, so each launch shows one plan.  A step has attention and several
micro-batches, because overlap=on hides the exchanges behind them.  shared_overlap=on needs a shared
expert (--shared).  With dispatcher=flex the backend moves the tokens: deepep needs DeepEP, hybridep
its branch hybrid-ep, and ncclep a Transformer Engine built with NVTE_BUILD_WITH_NCCL_EP=1.

This command prints the launch values of the table as Megatron's flags:

    moetune export --format flags --space mcore \
        --set dispatcher=--moe-token-dispatcher-type --set backend=--moe-flex-dispatcher-backend \
        --set num_sms=--moe-flex-dispatcher-num-sms --set ep=--expert-model-parallel-size \
        --set etp=--expert-tensor-parallel-size --set overlap=--overlap-moe-expert-parallel-comm \
        --set shared_overlap=--moe-shared-expert-overlap

With backend=ncclep Megatron also needs --moe-expert-rank-capacity-factor.  This program takes the
number of ranks that share the experts, which is always enough.
"""

import argparse
import itertools

try:
    import moetune
    import moetune.torch
    import torch
    import torch.distributed as dist
    from megatron.core import parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.pipeline_parallel.schedules import forward_backward_no_pipelining
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer.transformer_config import TransformerConfig
except ImportError as missing:
    raise SystemExit(f"mcore: {missing}: pip install what the head of mcore.py says")

USUAL = "E=8 k=2 T=4096 D=1024 H=2816 dtype=bf16"  # where moetune names no layer
USUAL_PLAN = (
    "dispatcher=allgather backend=deepep num_sms=20 ep=1 etp=1 overlap=off shared_overlap=off"
)
VOCABULARY, HEADS = 32000, 16


def new_config(shape, plan, options):
    """Returns the configuration.  Megatron-Core refuses here what it cannot run."""
    ranks = plan["ep"] * plan["etp"]
    return TransformerConfig(
        num_layers=options.layers,
        hidden_size=shape["D"],
        ffn_hidden_size=shape["H"],
        moe_ffn_hidden_size=shape["H"],
        num_attention_heads=HEADS,
        add_bias_linear=False,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        num_moe_experts=shape["E"],
        moe_router_topk=shape["k"],
        moe_router_pre_softmax=shape["k"] == 1,
        moe_router_dtype="fp32",  # DeepEP needs the weights of choices in fp32
        moe_grouped_gemm=True,
        moe_shared_expert_intermediate_size=options.shared or None,
        expert_model_parallel_size=plan["ep"],
        expert_tensor_parallel_size=plan["etp"],
        moe_token_dispatcher_type=plan["dispatcher"],
        moe_flex_dispatcher_backend=plan["backend"],
        moe_flex_dispatcher_num_sms=plan["num_sms"],
        # The receive buffer of ncclep has a fixed size, and an overrun ends the program.
        moe_expert_rank_capacity_factor=float(ranks) if plan["backend"] == "ncclep" else None,
        overlap_moe_expert_parallel_comm=plan["overlap"] == "on",
        moe_shared_expert_overlap=plan["shared_overlap"] == "on",
    )


def new_model(shape, plan, options):
    ranks, share = dist.get_world_size(), plan["ep"] * plan["etp"]
    if ranks % share or shape["E"] % plan["ep"]:
        raise ValueError(f"ep * etp = {share}: here are {ranks} ranks, {shape['E']} experts")
    if plan["shared_overlap"] == "on" and not options.shared:
        raise ValueError("shared_overlap: there is no shared expert (--shared UNITS)")
    config = new_config(shape, plan, options)
    parallel_state.initialize_model_parallel(
        expert_model_parallel_size=plan["ep"], expert_tensor_parallel_size=plan["etp"]
    )
    model_parallel_cuda_manual_seed(1)
    spec = get_gpt_layer_with_transformer_engine_spec(shape["E"], moe_grouped_gemm=True)
    return GPTModel(config, spec, VOCABULARY, shape["T"], position_embedding_type="rope").cuda()


def forward_step(batches, model, return_schedule_plan=False):
    tokens, positions = next(batches)
    run = model.build_schedule_plan if return_schedule_plan else model
    return run(tokens, positions, None, labels=tokens), lambda loss: (loss.mean(), {})


def step(model, batch, micro_batches):
    """Runs forward and backward, and sums the gradients over ranks."""
    model.zero_grad()
    forward_backward_no_pipelining(
        forward_step_func=forward_step,
        data_iterator=itertools.repeat(batch),
        model=model,
        num_microbatches=micro_batches,
        seq_length=batch[0].shape[1],
        micro_batch_size=1,
    )
    dense = parallel_state.get_data_parallel_group()
    expert = parallel_state.get_expert_data_parallel_group()
    for one in model.parameters():
        if one.grad is not None:  # experts have allreduce=False
            dist.all_reduce(one.grad, group=dense if getattr(one, "allreduce", True) else expert)


def main(options):
    moetune.torch.join_ranks()
    asker = moetune.torch.Asker(options.plan, options.steps)
    shape = dict(moetune.words(USUAL), **asker.layer)
    try:
        model = new_model(shape, asker.launch, options)
    except (AssertionError, ImportError, ValueError) as why:
        raise SystemExit(f"mcore: {why}")  # no step can run with these values
    for tokens in itertools.cycle(options.tokens or [shape["T"]]):
        if asker.ask(tokens) is None:
            break
        ids = torch.randint(VOCABULARY, (1, tokens), device="cuda")
        batch = ids, torch.arange(tokens, device="cuda")[None]
        asker.tell(*asker.timed(step, model, batch, options.micro_batches))
    asker.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="*", help="of a micro-batch (T of the layer)")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--shared", type=int, default=0, metavar="UNITS", help="of a shared expert")
    parser.add_argument("--plan", default=USUAL_PLAN)
    parser.add_argument("--steps", type=int, default=5, help="without moetune, under --plan")
    main(parser.parse_args())
