class Cores:
    def prefer_triton_grouped_mm(self):
        return False


def get_accelerator():
    return Cores()
