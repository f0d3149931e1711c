"""The structs of verbs.h and mrc.h that `mrc` passes, for ctypes. A test holds sizes and offsets to the C headers."""

from ctypes import POINTER, Structure, Union, c_char_p, c_int, c_size_t, c_uint, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p as void_p


class Gid(Union):
    """ibv_gid."""

    _fields_ = (("raw", c_uint8 * 16), ("words", c_uint64 * 2))


class Sge(Structure):
    """ibv_sge."""

    _fields_ = (("addr", c_uint64), ("length", c_uint32), ("lkey", c_uint32))


class _Rdma(Structure):
    _fields_ = (("remote_addr", c_uint64), ("rkey", c_uint32))


class _Wr(Union):
    _fields_ = (("rdma", _Rdma), ("room", c_uint64 * 4))


class SendWr(Structure):
    """ibv_send_wr."""


SendWr._fields_ = (
    ("wr_id", c_uint64), ("next", POINTER(SendWr)), ("sg_list", POINTER(Sge)), ("num_sge", c_int), ("opcode", c_int),
    ("send_flags", c_uint), ("imm_data", c_uint32), ("wr", _Wr), ("qp_type", c_uint64), ("tail", c_uint64 * 6),
)  # fmt: skip


class RecvWr(Structure):
    """ibv_recv_wr."""


RecvWr._fields_ = (("wr_id", c_uint64), ("next", POINTER(RecvWr)), ("sg_list", POINTER(Sge)), ("num_sge", c_int))


class Wc(Structure):
    """ibv_wc."""

    _fields_ = (
        ("wr_id", c_uint64), ("status", c_int), ("opcode", c_int), ("vendor_err", c_uint32), ("byte_len", c_uint32),
        ("imm_data", c_uint32), ("qp_num", c_uint32), ("src_qp", c_uint32), ("wc_flags", c_uint),
        ("pkey_index", c_uint16), ("slid", c_uint16), ("sl", c_uint8), ("dlid_path_bits", c_uint8),
    )  # fmt: skip


class _Route(Structure):
    _fields_ = (
        ("dgid", Gid), ("flow_label", c_uint32), ("sgid_index", c_uint8), ("hop_limit", c_uint8),
        ("traffic_class", c_uint8),
    )  # fmt: skip


class _Ah(Structure):
    _fields_ = (
        ("grh", _Route), ("dlid", c_uint16), ("sl", c_uint8), ("src_path_bits", c_uint8), ("static_rate", c_uint8),
        ("is_global", c_uint8), ("port_num", c_uint8),
    )  # fmt: skip


class Cap(Structure):
    """ibv_qp_cap."""

    _fields_ = tuple(
        (name, c_uint32) for name in ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline_data")
    )


class QpAttr(Structure):
    """ibv_qp_attr."""

    _fields_ = (
        ("qp_state", c_int), ("cur_qp_state", c_int), ("path_mtu", c_int), ("path_mig_state", c_int),
        ("qkey", c_uint32), ("rq_psn", c_uint32), ("sq_psn", c_uint32), ("dest_qp_num", c_uint32),
        ("qp_access_flags", c_uint), ("cap", Cap), ("ah_attr", _Ah), ("alt_ah_attr", _Ah), ("pkey_index", c_uint16),
        ("alt_pkey_index", c_uint16), ("en_sqd_async_notify", c_uint8), ("sq_draining", c_uint8),
        ("max_rd_atomic", c_uint8), ("max_dest_rd_atomic", c_uint8), ("min_rnr_timer", c_uint8), ("port_num", c_uint8),
        ("timeout", c_uint8), ("retry_cnt", c_uint8), ("rnr_retry", c_uint8), ("alt_port_num", c_uint8),
        ("alt_timeout", c_uint8), ("rate_limit", c_uint32),
    )  # fmt: skip


class Mr(Structure):
    """ibv_mr."""

    _fields_ = (
        ("context", void_p), ("pd", void_p), ("addr", void_p), ("length", c_size_t), ("handle", c_uint32),
        ("lkey", c_uint32), ("rkey", c_uint32),
    )  # fmt: skip


class ContextAttr(Structure):
    """mrc_context_attr."""

    _fields_ = (("mrc_api_version_used", c_uint32), ("mrc_vendor_api_version_used", c_uint32))


class QpInitAttr(Structure):
    """mrc_qp_init_attr."""

    _fields_ = (
        ("qp_context", void_p), ("send_cq", void_p), ("recv_cq", void_p), ("cap", Cap), ("sq_sig_all", c_int),
        ("pd", void_p), ("send_ops_flags", c_uint64), ("protocol_version", c_int),
    )  # fmt: skip


class _Mpr(Structure):
    _fields_ = (("mpr", c_uint8), ("mpr_dest", c_uint8))


class _Wimm(Structure):
    _fields_ = (("max_wimm", c_uint16), ("max_wimm_dest", c_uint16))


class _Profiles(Structure):
    _fields_ = (("ev_profile_id", c_uint64), ("cc_profile_id", c_uint64))


class _Retry(Structure):
    _fields_ = (("linear_cnt", c_uint8), ("exp_cnt", c_uint8))


class MrcQpAttr(Structure):
    """mrc_qp_attr."""

    _fields_ = (
        ("mpr", _Mpr), ("wimm", _Wimm), ("timeout", c_uint8), ("profile", _Profiles), ("retry", _Retry),
        ("qp_hint", void_p), ("cap", c_uint32), ("vendor_cfg", c_uint8 * 128),
    )  # fmt: skip


NAMES = {
    "ibv_sge": Sge, "ibv_send_wr": SendWr, "ibv_recv_wr": RecvWr, "ibv_wc": Wc, "ibv_qp_attr": QpAttr, "ibv_mr": Mr,
    "mrc_context_attr": ContextAttr, "mrc_qp_init_attr": QpInitAttr, "mrc_qp_attr": MrcQpAttr,
}  # fmt: skip

RESULTS = {
    "ibv_get_device_list": POINTER(void_p), "ibv_get_device_name": c_char_p, "ibv_open_device": void_p,
    "ibv_alloc_pd": void_p, "ibv_reg_mr": POINTER(Mr), "mrc_create_context": void_p, "mrc_create_cq": void_p,
    "mrc_create_qp": void_p, "ibv_wc_status_str": c_char_p,
}  # fmt: skip
"""Return types of the calls that do not return an int."""
