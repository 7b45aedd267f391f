"""The arguments of DeepEP 2.1.0 on two ranks. It asserts what its sources do, and sends nothing."""

import torch

topk_idx_t = torch.int64


class Event:
    def current_stream_wait(self):
        self.waited = True


class Config:
    def __init__(self, num_sms, nvl_send, nvl_recv, rdma_send, rdma_recv):
        assert num_sms > 0 and num_sms % 2 == 0 and 0 < nvl_send < nvl_recv
        rdma_recv = -(-rdma_recv // rdma_send) * rdma_send
        assert 0 < rdma_send <= rdma_recv // 2
        self.size = num_sms * nvl_recv

    def get_nvl_buffer_size_hint(self, hidden_bytes, num_ranks):
        return self.size * hidden_bytes


class Handle:
    pass


class Both:
    def send(self, x, topk_idx, topk_weights):
        assert topk_idx.dtype == topk_idx_t and topk_weights.dtype == torch.float32
        assert x.dtype == torch.bfloat16 and len(x) == len(topk_idx)
        return [len(x) // self.local] * self.local


class Buffer(Both):
    def __init__(self, group, num_nvl_bytes=0, num_rdma_bytes=0):
        assert num_nvl_bytes > 0 and num_rdma_bytes == 0
        self.room = num_nvl_bytes

    def get_dispatch_layout(self, topk_idx, num_experts):
        self.local = num_experts // 2
        return "per rank", None, "per expert", "in rank", None

    def dispatch(self, x, handle=None, num_tokens_per_rank=None, num_tokens_per_rdma_rank=None,
                 is_token_in_rank=None, num_tokens_per_expert=None, topk_idx=None,
                 topk_weights=None, expert_alignment=1, num_worst_tokens=0, config=None,
                 previous_event=None, async_finish=False, allocate_on_comm_stream=False):
        assert (num_tokens_per_rank, num_tokens_per_expert) == ("per rank", "per expert")
        assert is_token_in_rank == "in rank" and config.size * x.shape[1] * 2 <= self.room
        return x, None, None, self.send(x, topk_idx, topk_weights), Handle(), Event()

    def combine(self, x, handle, topk_weights=None, bias=None, config=None, previous_event=None,
                async_finish=False, allocate_on_comm_stream=False):
        assert isinstance(handle, Handle) and isinstance(config, Config)
        return x, None, Event()


class ElasticBuffer(Both):
    def __init__(self, group, num_bytes=None, num_cpu_bytes=0, num_max_tokens_per_rank=0, hidden=0,
                 num_topk=0, use_fp8_dispatch=False, deterministic=False, allow_hybrid_mode=True,
                 allow_multiple_reduction=True, prefer_overlap_with_compute=True, sl_idx=3,
                 num_allocated_qps=0, num_cpu_timeout_secs=300, num_gpu_timeout_secs=100,
                 explicitly_destroy=False):
        self.most, self.k, self.D = num_max_tokens_per_rank, num_topk, hidden
        assert allow_hybrid_mode is True

    def dispatch(self, x, topk_idx=None, topk_weights=None, cumulative_local_expert_recv_stats=None,
                 num_experts=None, num_max_tokens_per_rank=None, expert_alignment=None, num_sms=0,
                 num_qps=0, previous_event=None, previous_event_before_epilogue=None,
                 async_with_compute_stream=False, allocate_on_comm_stream=False, handle=None,
                 do_handle_copy=True, do_cpu_sync=None, do_expand=False, do_zero_padding=False,
                 use_tma_aligned_col_major_sf=False):
        assert 0 <= num_sms <= 160 and len(x) <= self.most and tuple(x.shape[1:]) == (self.D,)
        assert topk_idx.shape[1] == self.k
        self.local, handle = num_experts // 2, Handle()
        handle.num_recv_tokens_per_expert_list = self.send(x, topk_idx, topk_weights)
        return x, None, None, handle, Event()

    def combine(self, x, handle, topk_weights=None, bias=None, num_sms=0, num_qps=0,
                previous_event=None, previous_event_before_epilogue=None,
                async_with_compute_stream=False, allocate_on_comm_stream=False):
        assert isinstance(handle, Handle)
        return x, None, Event()
