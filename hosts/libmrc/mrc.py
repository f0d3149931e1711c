"""The MRC interface in Python, in the shape of pyverbs: Context, PD, MR, CQ and QP over lib_mrc.so.

A program that uses it runs on a host of the lab: `mrclab exec h1 -- python program.py`. Calls that are refused raise
OSError with the published errno. Objects are closed by `close`, at the end of a `with`, or with their context.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from ctypes import POINTER, Structure, Union, c_char_p, c_int, c_size_t, c_uint, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p as void_p
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

LIBRARY: Final = Path(__file__).parent / "build" / "lib_mrc.so"
API_VERSION: Final = 0x01000001

LOCAL_WRITE, REMOTE_WRITE = 1, 2
SIGNALED, INLINE = 2, 8
INIT, RTR, RTS = 1, 2, 3
_STATE, _ACCESS, _AV, _PATH_MTU, _RQ_PSN, _SQ_PSN, _DEST_QPN = 1, 1 << 3, 1 << 7, 1 << 8, 1 << 12, 1 << 16, 1 << 20
_WRITE, _WRITE_WITH_IMM = 0, 1
_MTUS: Final = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}

_library: list[ctypes.CDLL] = []


class Handle(void_p):
    """Pointer to an object of the library."""


STRUCTS: Final[dict[str, type[Structure]]] = {}
"""Structs by their names in C."""


def _struct(name: str = "", **fields: Any) -> type[Structure]:
    """Return a struct with these fields, in their order; without a name, one that is anonymous in C."""
    made = type(name or "anonymous", (Structure,), {"__doc__": f"{name}.", "_fields_": tuple(fields.items())})
    if name:
        STRUCTS[name] = made
    return made


class Gid(Union):
    """ibv_gid."""

    _fields_ = (("raw", c_uint8 * 16), ("words", c_uint64 * 2))


_Rdma = _struct(remote_addr=c_uint64, rkey=c_uint32)


class _Wr(Union):
    _fields_ = (("rdma", _Rdma), ("room", c_uint64 * 4))


Sge = _struct("ibv_sge", addr=c_uint64, length=c_uint32, lkey=c_uint32)
SendWr = _struct(
    "ibv_send_wr", wr_id=c_uint64, next=void_p, sg_list=POINTER(Sge), num_sge=c_int, opcode=c_int, send_flags=c_uint,
    imm_data=c_uint32, wr=_Wr, qp_type=c_uint64, tail=c_uint64 * 6,
)  # fmt: skip
RecvWr = _struct("ibv_recv_wr", wr_id=c_uint64, next=void_p, sg_list=POINTER(Sge), num_sge=c_int)
Wc = _struct(
    "ibv_wc", wr_id=c_uint64, status=c_int, opcode=c_int, vendor_err=c_uint32, byte_len=c_uint32, imm_data=c_uint32,
    qp_num=c_uint32, src_qp=c_uint32, wc_flags=c_uint, pkey_index=c_uint16, slid=c_uint16, sl=c_uint8,
    dlid_path_bits=c_uint8,
)  # fmt: skip
_Route = _struct(
    "ibv_global_route", dgid=Gid, flow_label=c_uint32, sgid_index=c_uint8, hop_limit=c_uint8, traffic_class=c_uint8
)
_Ah = _struct(
    "ibv_ah_attr", grh=_Route, dlid=c_uint16, sl=c_uint8, src_path_bits=c_uint8, static_rate=c_uint8, is_global=c_uint8,
    port_num=c_uint8,
)  # fmt: skip
Cap = _struct(
    "ibv_qp_cap", max_send_wr=c_uint32, max_recv_wr=c_uint32, max_send_sge=c_uint32, max_recv_sge=c_uint32,
    max_inline_data=c_uint32,
)  # fmt: skip
QpAttr = _struct(
    "ibv_qp_attr", qp_state=c_int, cur_qp_state=c_int, path_mtu=c_int, path_mig_state=c_int, qkey=c_uint32,
    rq_psn=c_uint32, sq_psn=c_uint32, dest_qp_num=c_uint32, qp_access_flags=c_uint, cap=Cap, ah_attr=_Ah,
    alt_ah_attr=_Ah, pkey_index=c_uint16, alt_pkey_index=c_uint16, en_sqd_async_notify=c_uint8, sq_draining=c_uint8,
    max_rd_atomic=c_uint8, max_dest_rd_atomic=c_uint8, min_rnr_timer=c_uint8, port_num=c_uint8, timeout=c_uint8,
    retry_cnt=c_uint8, rnr_retry=c_uint8, alt_port_num=c_uint8, alt_timeout=c_uint8, rate_limit=c_uint32,
)  # fmt: skip
Mr = _struct(
    "ibv_mr", context=void_p, pd=void_p, addr=void_p, length=c_size_t, handle=c_uint32, lkey=c_uint32, rkey=c_uint32
)
ContextAttr = _struct(
    "mrc_context_attr", mrc_api_version_used=c_uint32, mrc_vendor_api_version_used=c_uint32
)  # fmt: skip
QpInitAttr = _struct(
    "mrc_qp_init_attr", qp_context=void_p, send_cq=void_p, recv_cq=void_p, cap=Cap, sq_sig_all=c_int, pd=void_p,
    send_ops_flags=c_uint64, protocol_version=c_int,
)  # fmt: skip
_Mpr = _struct(mpr=c_uint8, mpr_dest=c_uint8)
_Wimm = _struct(max_wimm=c_uint16, max_wimm_dest=c_uint16)
_Profiles = _struct(ev_profile_id=c_uint64, cc_profile_id=c_uint64)
_Retry = _struct(linear_cnt=c_uint8, exp_cnt=c_uint8)
MrcQpAttr = _struct(
    "mrc_qp_attr", mpr=_Mpr, wimm=_Wimm, timeout=c_uint8, profile=_Profiles, retry=_Retry, qp_hint=void_p, cap=c_uint32,
    vendor_cfg=c_uint8 * 128,
)  # fmt: skip

RESULTS = {
    "ibv_get_device_list": POINTER(void_p), "ibv_get_device_name": c_char_p, "ibv_open_device": Handle,
    "ibv_alloc_pd": Handle, "ibv_reg_mr": POINTER(Mr), "mrc_create_context": Handle, "mrc_create_cq": Handle,
    "mrc_create_qp": Handle, "ibv_wc_status_str": c_char_p,
}  # fmt: skip
"""Return types of the calls that do not return an int."""

_CHECKED: Final = (
    "ibv_open_device", "ibv_query_gid", "ibv_query_port", "ibv_alloc_pd", "ibv_reg_mr", "mrc_create_context",
    "mrc_create_comp_channel", "mrc_get_comp_channel_fd", "mrc_get_cq_event", "mrc_req_notify_cq", "mrc_create_cq",
    "mrc_create_qp", "mrc_modify_qp", "mrc_post_send", "mrc_post_recv", "ibv_dealloc_pd", "ibv_dereg_mr",
    "mrc_destroy_comp_channel", "mrc_destroy_cq", "mrc_destroy_qp",
)  # fmt: skip
"""Calls that give an object, or 0, unless they are refused."""


def _lib() -> ctypes.CDLL:
    """Load lib_mrc.so: the one that the program has loaded already, else the build's."""
    if not _library:
        loaded = ctypes.CDLL(None, use_errno=True)
        found = loaded if hasattr(loaded, "mrc_create_context") else ctypes.CDLL(str(_path()), use_errno=True)
        for name, kind in RESULTS.items():
            getattr(found, name).restype = kind
        for name in _CHECKED:
            getattr(found, name).errcheck = _checked
        _library.append(found)
    return _library[0]


def _path() -> Path:
    path = Path(os.environ.get("LIB_MRC", LIBRARY))
    if not path.exists():
        raise OSError(errno.ENOENT, f"{path} is not built; run make libmrc")
    return path


def _checked(result: Any, function: Any, _arguments: object) -> Any:
    """Return the object that a call gives, or 0; OSError where it was refused."""
    if bool(result) == (function.__name__ not in RESULTS):
        number = ctypes.get_errno() or errno.EIO
        raise OSError(number, f"{function.__name__.partition('_')[2]}: {os.strerror(number)}")
    return result


@dataclass(frozen=True)
class Completion:
    """One entry of a completion queue; `imm` where a receive got one."""

    wr_id: int
    status: int
    opcode: int
    byte_len: int
    imm: int | None

    @property
    def ok(self) -> bool:
        """True if the request went well."""
        return self.status == 0

    @property
    def text(self) -> str:
        """The status in words."""
        return str(_lib().ibv_wc_status_str(self.status).decode())


class _Closing:
    """Something to be closed."""

    def __init__(self, owner: Context | None, close: Callable[[], object]) -> None:
        self._close: Callable[[], object] | None = close
        self._parts: list[_Closing] = []
        if owner is not None:
            owner.closes(self)

    def closes(self, other: _Closing) -> None:
        """Close another object before this one is closed."""
        self._parts.append(other)

    def close(self) -> None:
        """Free it, once; OSError if objects that use it are not closed yet."""
        while self._parts:
            self._parts[-1].close()
            self._parts.pop()
        if self._close is not None:
            self._close()
            self._close = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Context(_Closing):
    """An open device with MRC's context on it; `name` None: the first device."""

    def __init__(self, name: str | None = None) -> None:
        lib = _lib()
        self._open(name)
        attr = ContextAttr(API_VERSION, 0)
        try:
            self.mrc = lib.mrc_create_context(self.ibv, ctypes.byref(attr))
        except OSError:
            lib.ibv_close_device(self.ibv)
            raise
        super().__init__(None, lambda: (lib.mrc_destroy_context(self.mrc), lib.ibv_close_device(self.ibv)))

    def _open(self, name: str | None) -> None:
        lib, count = _lib(), ctypes.c_int()
        devices = lib.ibv_get_device_list(ctypes.byref(count))
        try:
            for at in range(count.value):
                device = ctypes.c_void_p(devices[at])
                if name in {None, lib.ibv_get_device_name(device).decode()}:
                    self.ibv = lib.ibv_open_device(device)
                    return
        finally:
            lib.ibv_free_device_list(devices)
        raise OSError(
            errno.ENODEV, f"there is no device{f' {name}' if name else ''}; start the program with mrclab exec HOST --"
        )

    @property
    def gid(self) -> str:
        """The host's address."""
        gid = Gid()
        _lib().ibv_query_gid(self.ibv, 1, 0, ctypes.byref(gid))
        return str(ipaddress.IPv6Address(bytes(gid.raw)))

    @property
    def path_mtu(self) -> int:
        """The active path MTU of the first port, bytes of payload in a packet."""
        port = (ctypes.c_uint32 * 64)()  # ibv_port_attr: state, max_mtu, active_mtu, …
        _lib().ibv_query_port(self.ibv, 1, port)
        return 128 << port[2]


class PD(_Closing):
    """A protection domain."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.handle = _lib().ibv_alloc_pd(context.ibv)
        super().__init__(context, lambda: _lib().ibv_dealloc_pd(self.handle))


class MR(_Closing):
    """Registered memory of `length` bytes; `buf` is it."""

    def __init__(self, pd: PD, length: int, access: int = LOCAL_WRITE | REMOTE_WRITE) -> None:
        self.buf = memoryview((ctypes.c_char * length)()).cast("B")
        self.addr = ctypes.addressof(ctypes.c_char.from_buffer(self.buf))
        region = _lib().ibv_reg_mr(pd.handle, ctypes.c_void_p(self.addr), ctypes.c_size_t(length), access)
        self.lkey, self.rkey = int(region.contents.lkey), int(region.contents.rkey)
        super().__init__(pd.context, lambda: _lib().ibv_dereg_mr(region))


class CompletionChannel(_Closing):
    """A completion channel: `fileno` becomes readable when an armed queue gets a completion."""

    def __init__(self, context: Context) -> None:
        made, number = ctypes.c_void_p(), ctypes.c_int()
        _lib().mrc_create_comp_channel(context.mrc, ctypes.byref(made))
        self.handle = made
        _lib().mrc_get_comp_channel_fd(made, ctypes.byref(number))
        self._descriptor = number.value
        super().__init__(context, lambda: _lib().mrc_destroy_comp_channel(made))

    def fileno(self) -> int:
        """Descriptor for poll; at end of file when the host's agent has ended."""
        return self._descriptor

    def take(self) -> None:
        """Wait for one event and acknowledge it. OSError with EIO if the agent has ended."""
        queue, user = ctypes.c_void_p(), ctypes.c_void_p()
        _lib().mrc_get_cq_event(self.handle, ctypes.byref(queue), ctypes.byref(user))
        _lib().mrc_ack_cq_events(queue, 1)


class CQ(_Closing):
    """A completion queue; with a channel, `notify` requests an event at the next completion."""

    def __init__(self, context: Context, cqe: int, channel: CompletionChannel | None = None) -> None:
        end = None if channel is None else channel.handle
        self.handle = _lib().mrc_create_cq(context.mrc, cqe, None, end, 0)
        super().__init__(context, lambda: _lib().mrc_destroy_cq(self.handle))

    def poll(self, most: int = 16) -> list[Completion]:
        """Up to `most` completions, oldest first; maybe none."""
        entries = (Wc * most)()
        found = _lib().mrc_poll_cq(self.handle, most, entries)
        if found < 0:
            raise OSError(ctypes.get_errno(), f"poll_cq: {os.strerror(ctypes.get_errno())}")
        return [
            Completion(e.wr_id, e.status, e.opcode, e.byte_len, socket.ntohl(e.imm_data) if e.wc_flags & 2 else None)
            for e in entries[:found]
        ]

    def notify(self) -> None:
        """Request an event at the next completion; poll once more before waiting for it."""
        _lib().mrc_req_notify_cq(self.handle, 0)

    def wait(self, count: int = 1) -> Iterator[Completion]:
        """The next `count` completions, as they come."""
        while count:
            for found in self.poll(count):
                count -= 1
                yield found


@dataclass(frozen=True)
class Address:
    """Connection parameters of a peer."""

    gid: str
    qpn: int
    psn: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class QP(_Closing):
    """A queue pair on one or two completion queues, in RESET."""

    def __init__(self, pd: PD, send_cq: CQ, recv_cq: CQ | None = None, depth: int = 128, psn: int = 0) -> None:
        queues = {"send_cq": send_cq.handle.value, "recv_cq": (recv_cq or send_cq).handle.value}
        init = QpInitAttr(pd=pd.handle.value, sq_sig_all=1, **queues)
        init.cap.max_send_wr = init.cap.max_recv_wr = depth
        init.cap.max_send_sge = init.cap.max_recv_sge = 1
        self.handle = _lib().mrc_create_qp(pd.context.mrc, ctypes.byref(init))
        super().__init__(pd.context, lambda: _lib().mrc_destroy_qp(self.handle))
        number = ctypes.c_uint32()
        _lib().mrc_get_qpn(self.handle, ctypes.byref(number))
        self.address = Address(pd.context.gid, number.value, psn)

    def modify(self, attr: Structure, mask: int, mrc: Structure | None = None, mrc_mask: int = 0) -> None:
        """mrc_modify_qp."""
        also = None if mrc is None else ctypes.byref(mrc)
        _lib().mrc_modify_qp(self.handle, ctypes.byref(attr), mask, also, mrc_mask)

    def connect(self, peer: Address, path_mtu: int = 4096) -> None:
        """INIT, RTR and RTS towards a peer; ValueError where `path_mtu`, in bytes, is none that IBTA has."""
        if path_mtu not in _MTUS:
            raise ValueError(f"path_mtu {path_mtu} is none of {', '.join(map(str, _MTUS))}")
        self.modify(QpAttr(qp_state=INIT, qp_access_flags=LOCAL_WRITE | REMOTE_WRITE), _STATE | _ACCESS)
        attr = QpAttr(qp_state=RTR, path_mtu=_MTUS[path_mtu], dest_qp_num=peer.qpn, rq_psn=peer.psn)
        attr.ah_attr.is_global, attr.ah_attr.port_num = 1, 1
        attr.ah_attr.grh.dgid.raw[:] = list(ipaddress.IPv6Address(peer.gid).packed)
        self.modify(attr, _STATE | _AV | _PATH_MTU | _DEST_QPN | _RQ_PSN)
        self.modify(QpAttr(qp_state=RTS, sq_psn=self.address.psn), _STATE | _SQ_PSN)

    def write(
        self, mr: MR, remote_addr: int, rkey: int, *, offset: int = 0, length: int | None = None, wr_id: int = 0,
        imm: int | None = None,
    ) -> None:  # fmt: skip
        """Post RDMA_WRITE of `length` bytes at `offset` of a region, with an immediate where one is given."""
        size = len(mr.buf) - offset if length is None else length
        sge = Sge(mr.addr + offset, size, mr.lkey)
        wr = SendWr(wr_id=wr_id, sg_list=ctypes.pointer(sge), num_sge=1, send_flags=SIGNALED)
        wr.opcode = _WRITE if imm is None else _WRITE_WITH_IMM
        wr.imm_data = socket.htonl(imm or 0)
        wr.wr.rdma.remote_addr, wr.wr.rdma.rkey = remote_addr, rkey
        bad = ctypes.POINTER(SendWr)()
        _lib().mrc_post_send(self.handle, ctypes.byref(wr), ctypes.byref(bad))

    def receive(self, wr_id: int = 0) -> None:
        """Post a receive for one immediate."""
        wr, bad = RecvWr(wr_id=wr_id), ctypes.POINTER(RecvWr)()
        _lib().mrc_post_recv(self.handle, ctypes.byref(wr), ctypes.byref(bad))
