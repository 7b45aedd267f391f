ACTIVATIONS = {}


def register_expert_activation(name, fn):
    ACTIVATIONS[name] = fn
