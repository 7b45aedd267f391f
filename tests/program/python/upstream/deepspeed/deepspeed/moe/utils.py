def split_params_into_different_moe_groups_for_optimizer(groups):
    assert groups["name"] and groups["params"]
    return [groups]
