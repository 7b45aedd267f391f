"""By which the program finds the factor that gives a capacity."""

import torch


def _capacity(gates, factor, least):
    return torch.maximum(torch.ceil(len(gates) / gates.shape[1] * factor).long(), least)
