"""What moetune init hf-moe calls of transformers 5: a Mixtral of one layer."""

import torch

__version__ = "5.99"


class MixtralConfig:
    def __init__(self, **said):
        self.__dict__.update(said)


class Model(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        draw = lambda *sizes: torch.nn.Parameter(torch.randn(sizes) / sizes[-1] ** 0.5)
        self.words, self.gate = draw(c.vocab_size, c.hidden_size), draw(8, c.hidden_size)
        self.up = draw(c.num_local_experts, c.intermediate_size, c.hidden_size)
        self.down = draw(c.num_local_experts, c.hidden_size, c.intermediate_size)
        self.experts, self.k = "eager", c.num_experts_per_tok

    def set_experts_implementation(self, name):
        if name not in ("eager", "batched_mm", "grouped_mm"):
            raise ValueError(f"no such experts: {name}")
        self.experts = name

    def forward(self, texts, use_cache):
        assert not use_cache
        x = self.words[texts.flatten()]
        weight, expert = (x @ self.gate.T).softmax(-1).topk(self.k)
        if self.experts == "eager":
            y = torch.zeros_like(x)
            for e in range(len(self.up)):
                part = (weight * (expert == e)).sum(1, keepdim=True)
                y = y + part * (torch.nn.functional.silu(x @ self.up[e].T) @ self.down[e].T)
        else:
            h = torch.nn.functional.silu(torch.einsum("td,tkhd->tkh", x, self.up[expert]))
            y = (torch.einsum("tkh,tkdh->tkd", h, self.down[expert]) * weight[..., None]).sum(1)
        out = type("Out", (), {})()
        out.logits = (x + y * self.off()) @ self.words.T
        return out

    def off(self):
        return 1


class AutoModelForCausalLM:
    @staticmethod
    def from_config(config):
        return Model(config)
