"""What moetune init autoep calls of transformers 5: a Mixtral whose experts AutoEP takes over."""

import torch

__version__ = "5.99"


class MixtralConfig:
    def __init__(self, **said):
        self.__dict__.update(said)


def draw(*sizes):
    return torch.nn.Parameter(torch.randn(sizes) / sizes[-1] ** 0.5)


class Experts(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        sizes = c.num_local_experts, c.intermediate_size, c.hidden_size
        self.gate_up_proj = draw(sizes[0], 2 * sizes[1], sizes[2])
        self.down_proj = draw(sizes[0], sizes[2], sizes[1])


class Mlp(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = torch.nn.Linear(c.hidden_size, c.num_local_experts, bias=False)
        self.experts, self.k = Experts(c), c.num_experts_per_tok

    def forward(self, x):
        weight, expert = self.gate(x).softmax(-1).topk(self.k)
        y = torch.zeros_like(x)
        for e, (both, down) in enumerate(zip(self.experts.gate_up_proj, self.experts.down_proj)):
            gate, up = (x @ both.T).chunk(2, dim=-1)
            part = (weight * (expert == e)).sum(1, keepdim=True)
            y = y + part * ((torch.nn.functional.silu(gate) * up) @ down.T)
        return y


class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.mlp = Mlp(c)


class Model(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.words, self.block = draw(c.vocab_size, c.hidden_size), Block(c)

    def forward(self, texts, use_cache):
        assert not use_cache
        x = self.words[texts.flatten()]
        out = type("Out", (), {})()
        y = x + self.block.mlp(x)
        out.logits = (y @ self.words.T).reshape(*texts.shape, -1)
        return out


class AutoModelForCausalLM:
    @staticmethod
    def from_config(config):
        return Model(config)
