-- MRC over SRv6 for Wireshark and tshark: every header of the wire format, the uSID list and the EV decoded, SACK bitmaps
-- as PSNs, notes on retransmissions, trims and holes, and both directions of a QP under one number.
--
--   wireshark -X lua_script:docs/wireshark/mrc.lua capture.pcapng        (or copy it into the personal Lua plugin folder)
--
-- The formats are those of docs/mrc-protocol.md 1.5; how uSIDs and EVs split into fields is topo/srv6.py's.

local mrc = Proto("mrc", "Multipath Reliable Connection")

-- Values, by python -m mrclab.hosts.wiredoc
local OPCODES = {
    [198] = "WRITE_FIRST", [199] = "WRITE_MIDDLE", [200] = "WRITE_LAST", [201] = "WRITE_LAST_IMM", [202] = "WRITE_ONLY",
    [203] = "WRITE_ONLY_IMM", [209] = "ACK", [216] = "ENDPOINT_REQUEST", [217] = "ENDPOINT_RESPONSE", [220] = "SACK",
    [221] = "NACK", [222] = "PROBE",
}
local MARKS = {
    [0] = "NONE", [1] = "SKIP_ONCE", [2] = "ALWAYS_SKIP",
}
local REASONS = {
    [1] = "TRIMMED", [2] = "TRIMMED_LASTHOP", [6] = "NO_BITMAP", [7] = "NO_PKT_BUFFER", [10] = "NO_RESOURCE",
    [11] = "PSN_OOR_WINDOW", [25] = "UNEXP_EVENT",
}
local ENDPOINT_OPS = {
    [0] = "PORT_STATUS_UPDATE", [1] = "EV_PROBE",
}
local DSCPS = {
    [0] = "NO_TRIM", [4] = "TRIMMABLE", [8] = "TRIMMABLE_RETX", [12] = "TRIMMED", [16] = "TRIMMED_LASTHOP", [46] = "CONTROL",
}
-- End of values
local LOCATOR = 0xFCBBBB00
local ENDPOINT_QPN = 2
local UDP_PORT = 4791
local OUTER_AT, INNER_AT, UDP_AT, BTH_AT = 14, 54, 94, 102 -- in a frame

local f = {
    path = ProtoField.string("mrc.path", "Path still ahead"),
    usids = ProtoField.string("mrc.usids", "uSID list"),
    ev = ProtoField.uint32("mrc.ev", "EV", base.HEX),
    ev_plane = ProtoField.uint32("mrc.ev.plane", "Plane", base.DEC, nil, 0xF0000000),
    ev_uplink = ProtoField.uint32("mrc.ev.uplink", "Uplink", base.DEC),
    ev_tag = ProtoField.uint32("mrc.ev.tag", "Tag", base.HEX, nil, 0x0000FFFF),
    class = ProtoField.uint8("mrc.class", "Class", base.DEC, DSCPS),
    ce = ProtoField.bool("mrc.ce", "ECN congestion experienced"),
    trimmed = ProtoField.bool("mrc.trimmed", "Trimmed"),
    qp = ProtoField.uint32("mrc.qp", "QP pair of this capture", base.DEC),
    opcode = ProtoField.uint8("mrc.opcode", "Opcode", base.HEX, OPCODES),
    dqp = ProtoField.uint24("mrc.dqp", "Destination QP", base.HEX),
    ackreq = ProtoField.bool("mrc.ackreq", "Acknowledge request", 8, nil, 0x80),
    rtx = ProtoField.bool("mrc.rtx", "Retransmission", 8, nil, 0x20),
    ts_present = ProtoField.bool("mrc.ts", "Timestamp present", 8, nil, 0x10),
    psn = ProtoField.uint24("mrc.psn", "PSN", base.DEC),
    request_id = ProtoField.uint16("mrc.request_id", "Request id", base.DEC),
    rqmsn = ProtoField.uint16("mrc.rqmsn", "RQMSN", base.DEC),
    msn = ProtoField.uint16("mrc.msn", "MSN", base.DEC),
    tx_timestamp = ProtoField.uint16("mrc.tx_timestamp", "Transmit timestamp", base.DEC),
    tsr = ProtoField.uint16("mrc.tsr", "Timestamp in microseconds", base.DEC, { [0] = "128 ns", [1] = "1 us" }, 0x8000),
    va = ProtoField.uint64("mrc.va", "Virtual address", base.HEX),
    rkey = ProtoField.uint32("mrc.rkey", "R_Key", base.HEX),
    length = ProtoField.uint32("mrc.length", "Message length", base.DEC),
    immediate = ProtoField.uint32("mrc.immediate", "Immediate data", base.HEX),
    payload = ProtoField.uint32("mrc.payload", "Payload bytes", base.DEC),
    icrc = ProtoField.uint32("mrc.icrc", "ICRC", base.HEX),
    mark = ProtoField.uint8("mrc.sack.m", "M", base.DEC, MARKS, 0x60),
    probe_reply = ProtoField.bool("mrc.sack.pr", "Probe reply", 8, nil, 0x02),
    ack_offset = ProtoField.int16("mrc.sack.ack_psn_offset", "Trigger, from CACK", base.DEC),
    probe_id = ProtoField.uint16("mrc.probe_id", "Probe id", base.DEC),
    entropy = ProtoField.uint32("mrc.entropy", "Reflected EV", base.HEX),
    cack = ProtoField.uint24("mrc.sack.cack", "CACK PSN", base.DEC),
    mpr = ProtoField.uint8("mrc.sack.mpr", "MPR in units of 128 PSNs", base.DEC),
    sack_offset = ProtoField.int16("mrc.sack.offset", "Bitmap begins at, from CACK", base.DEC),
    bitmap = ProtoField.uint64("mrc.sack.bitmap", "Bitmap", base.HEX),
    received = ProtoField.string("mrc.sack.received", "Received out of order"),
    missing = ProtoField.string("mrc.sack.missing", "Missing"),
    ooo = ProtoField.uint16("mrc.sack.ooo_count", "Out-of-order count", base.DEC, nil, 0x7FFF),
    restore = ProtoField.bool("mrc.sack.restore_cwnd", "Restore window", 8, nil, 0x80),
    penalty = ProtoField.uint8("mrc.sack.penalty", "Window penalty", base.DEC, nil, 0x7F),
    rcvd = ProtoField.uint24("mrc.sack.rcvd_bytes", "Received, in units of 256 bytes", base.DEC),
    cc_type = ProtoField.uint8("mrc.cc_type", "CC type", base.DEC, nil, 0xF0),
    reason = ProtoField.uint8("mrc.nack.reason", "Reason", base.HEX, REASONS),
    vendor = ProtoField.uint8("mrc.vendor", "Vendor code", base.HEX),
    nack_psn = ProtoField.uint24("mrc.nack.psn", "NACK PSN", base.DEC),
    endpoint_op = ProtoField.uint8("mrc.endpoint.op", "Operation", base.DEC, ENDPOINT_OPS),
    port_mask = ProtoField.uint32("mrc.endpoint.port_mask", "Ports that are up", base.HEX),
    service_time = ProtoField.uint32("mrc.endpoint.service_time", "Service time (ns)", base.DEC),
    syndrome = ProtoField.uint8("mrc.aeth.syndrome", "Syndrome", base.HEX),
    aeth_msn = ProtoField.uint24("mrc.aeth.msn", "MSN", base.DEC),
}
local fields = {}
for _, field in pairs(f) do fields[#fields + 1] = field end
mrc.fields = fields

local note = {
    rtx = ProtoExpert.new("mrc.note.retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
    trimmed = ProtoExpert.new("mrc.note.trimmed", "A switch trimmed this packet to its headers",
        expert.group.SEQUENCE, expert.severity.WARN),
    ce = ProtoExpert.new("mrc.note.ce", "A switch marked this packet (ECN)", expert.group.SEQUENCE, expert.severity.CHAT),
    nack = ProtoExpert.new("mrc.note.nack", "The responder refused a packet", expert.group.RESPONSE_CODE, expert.severity.WARN),
    hole = ProtoExpert.new("mrc.note.hole", "Packets are missing", expert.group.SEQUENCE, expert.severity.NOTE),
    short = ProtoExpert.new("mrc.note.short", "The packet ends inside a header", expert.group.MALFORMED, expert.severity.ERROR),
}
mrc.experts = { note.rtx, note.trimmed, note.ce, note.nack, note.hole, note.short }

local function usid_name(value)
    local kind, plane = bit.band(bit.rshift(value, 12), 3), bit.band(bit.rshift(value, 8), 15)
    local number = bit.band(bit.rshift(value, 6), 768) + bit.band(value, 255)
    if kind == 1 then return string.format("t1-p%d-%d", plane, number) end
    if kind == 2 then return string.format("t0-p%d-%d", plane, number) end
    if kind == 3 then return string.format("downlink %d", number) end
    return string.format("%04x", value)
end

local function add_path(tree, outer)
    if outer(24, 4):uint() ~= LOCATOR then return end
    local words, names = {}, {}
    for at = 28, 38, 2 do
        local value = outer(at, 2):uint()
        words[#words + 1] = string.format("%04x", value)
        if value ~= 0 then names[#names + 1] = usid_name(value) end
    end
    tree:add(f.usids, outer(28, 12), table.concat(words, ":"))
    tree:add(f.path, outer(28, 12), table.concat(names, " > "))
end

local function add_ev(tree, field, range, value)
    local node = tree:add(field, range, value)
    local uplink = bit.band(bit.rshift(value, 8), 768) + bit.band(bit.rshift(value, 20), 255)
    node:add(f.ev_plane, range, value)
    node:add(f.ev_uplink, range, uplink)
    node:add(f.ev_tag, range, value)
    node:append_text(string.format(" (plane %d, uplink %d, tag %04x)", bit.rshift(value, 28),
        uplink, bit.band(value, 65535)))
end

-- The two directions of a QP carry different QP numbers. They are paired when a SACK answers PSNs that the other sent,
-- whichever of the two comes first in the capture.
local sent, acked = {}, {} -- by direction: addresses, and the PSN of its last write or the CACK of its last SACK
local pair_of, pairs_made = {}, 0
local key_of = {} -- by frame number: on the second pass packets before the pairing show it as well
function mrc.init() sent, acked, pair_of, pairs_made, key_of = {}, {}, {}, 0, {} end

local function near(a, b)
    local distance = (a - b) % 0x1000000
    return distance < 0x10000 or distance > 0xFF0000
end

local function pair_with(here, mine, others)
    for there, other in pairs(others) do
        if other.from == mine.to and other.to == mine.from and near(other.psn, mine.psn) then
            local number = pair_of[here] or pair_of[there]
            if not number then
                pairs_made = pairs_made + 1
                number = pairs_made
            end
            pair_of[here], pair_of[there] = number, number
            return
        end
    end
end

local function learn(from, to, dqp, opcode, psn, cack)
    local here = from .. to .. dqp
    if opcode <= 0xCB then
        sent[here] = { from = from, to = to, psn = psn }
        if not pair_of[here] then pair_with(here, sent[here], acked) end
    elseif cack then
        acked[here] = { from = from, to = to, psn = cack }
        if not pair_of[here] then pair_with(here, acked[here], sent) end
    end
    return here
end

local function psn_ranges(first, set, wanted)
    local parts, begun = {}, nil
    for i = 0, #set + 1 do
        if set[i] == wanted then
            begun = begun or i
        elseif begun then
            local a, b = (first + begun) % 0x1000000, (first + i - 1) % 0x1000000
            parts[#parts + 1] = a == b and tostring(a) or a .. "-" .. b
            begun = nil
        end
    end
    return table.concat(parts, ", ")
end

local function add_bitmap(tree, range, first)
    local set, highest = {}, -1
    for i = 0, 63 do
        local byte = range(7 - math.floor(i / 8), 1):uint()
        set[i] = bit.band(bit.rshift(byte, i % 8), 1) == 1
        if set[i] then highest = i end
    end
    for i = highest + 1, 63 do set[i] = nil end
    if highest < 0 then return false end
    local missing = psn_ranges(first, set, false)
    tree:add(f.received, range, psn_ranges(first, set, true))
    if missing ~= "" then tree:add(f.missing, range, missing) end
    return missing ~= ""
end

local body = {}

body.write = function(tvb, at, tree, opcode, flags)
    tree:add(f.rqmsn, tvb(at, 2)); tree:add(f.msn, tvb(at + 2, 2))
    at = at + 4
    if bit.band(flags, 0x10) ~= 0 then
        tree:add(f.tx_timestamp, tvb(at, 2)); tree:add(f.tsr, tvb(at + 2, 2))
        at = at + 4
    end
    tree:add(f.va, tvb(at, 8)); tree:add(f.rkey, tvb(at + 8, 4)); tree:add(f.length, tvb(at + 12, 4))
    at = at + 16
    if opcode == 0xC9 or opcode == 0xCB then
        tree:add(f.immediate, tvb(at, 4))
        at = at + 4
    end
    return at
end

body[0xD1] = function(tvb, at, tree)
    tree:add(f.syndrome, tvb(at, 1)); tree:add(f.aeth_msn, tvb(at + 1, 3))
    return at + 4
end

body[0xDC] = function(tvb, at, tree, _, _, info)
    local flags, cack = tvb(at + 1, 1), tvb(at + 13, 3):uint()
    tree:add(f.mark, flags); tree:add(f.probe_reply, flags)
    if bit.band(flags:uint(), 2) ~= 0 then tree:add(f.probe_id, tvb(at + 2, 2)) else tree:add(f.ack_offset, tvb(at + 2, 2)) end
    add_ev(tree, f.entropy, tvb(at + 4, 4), tvb(at + 4, 4):uint())
    tree:add(f.cack, tvb(at + 13, 3)); tree:add(f.cc_type, tvb(at + 16, 1)); tree:add(f.mpr, tvb(at + 17, 1))
    tree:add(f.sack_offset, tvb(at + 18, 2)); tree:add(f.bitmap, tvb(at + 20, 8))
    if add_bitmap(tree, tvb(at + 20, 8), (cack + tvb(at + 18, 2):int()) % 0x1000000) then tree:add_proto_expert_info(note.hole) end
    tree:add(f.tx_timestamp, tvb(at + 28, 2)); tree:add(f.ooo, tvb(at + 30, 2))
    tree:add(f.restore, tvb(at + 32, 1)); tree:add(f.penalty, tvb(at + 32, 1)); tree:add(f.rcvd, tvb(at + 33, 3))
    info.text = string.format(" CACK %d", cack)
    info.cack = cack
    return at + 36
end

body[0xDD] = function(tvb, at, tree, _, _, info)
    local reason, psn = tvb(at + 2, 1):uint(), tvb(at + 13, 3):uint()
    tree:add(f.reason, tvb(at + 2, 1)); tree:add(f.vendor, tvb(at + 3, 1))
    add_ev(tree, f.entropy, tvb(at + 4, 4), tvb(at + 4, 4):uint())
    tree:add(f.nack_psn, tvb(at + 13, 3)); tree:add(f.cc_type, tvb(at + 16, 1)); tree:add(f.tx_timestamp, tvb(at + 18, 2))
    tree:add_proto_expert_info(note.nack, string.format("PSN %d: %s", psn, REASONS[reason] or "unknown reason"))
    info.text = string.format(" PSN %d %s", psn, REASONS[reason] or "")
    return at + 20
end

body[0xDE] = function(tvb, at, tree)
    tree:add(f.vendor, tvb(at + 3, 1)); tree:add(f.probe_id, tvb(at + 4, 2)); tree:add(f.tx_timestamp, tvb(at + 12, 2))
    tree:add(f.tsr, tvb(at + 14, 2))
    return at + 16
end

body[0xD8] = function(tvb, at, tree, _, _, info)
    tree:add(f.endpoint_op, tvb(at, 1)); tree:add(f.port_mask, tvb(at + 4, 4)); tree:add(f.tx_timestamp, tvb(at + 12, 2))
    tree:add(f.tsr, tvb(at + 14, 2))
    info.text = " " .. (ENDPOINT_OPS[tvb(at, 1):uint()] or "")
    return at + 16
end

body[0xD9] = function(tvb, at, tree, _, _, info)
    tree:add(f.endpoint_op, tvb(at, 1))
    add_ev(tree, f.entropy, tvb(at + 4, 4), tvb(at + 4, 4):uint())
    tree:add(f.port_mask, tvb(at + 8, 4)); tree:add(f.tx_timestamp, tvb(at + 28, 2)); tree:add(f.tsr, tvb(at + 30, 2))
    tree:add(f.service_time, tvb(at + 32, 4))
    info.text = " " .. (ENDPOINT_OPS[tvb(at, 1):uint()] or "")
    return at + 36
end

local HEADER_BYTES = { [0xD1] = 4, [0xDC] = 36, [0xDD] = 20, [0xDE] = 16, [0xD8] = 16, [0xD9] = 36 }

local function header_bytes(opcode, flags)
    if opcode <= 0xCB then
        return 20 + (bit.band(flags, 0x10) ~= 0 and 4 or 0) + ((opcode == 0xC9 or opcode == 0xCB) and 4 or 0)
    end
    return HEADER_BYTES[opcode]
end

-- Path, EV and class of a frame; returns whether a switch trimmed it.
local function add_carriage(tree, frame)
    local class = bit.band(bit.rshift(frame(INNER_AT, 2):uint(), 4), 255)
    local dscp = bit.rshift(class, 2)
    add_path(tree, frame(OUTER_AT, 40))
    add_ev(tree, f.ev, frame(UDP_AT, 2), frame(INNER_AT + 2, 2):uint() * 65536 + frame(UDP_AT, 2):uint())
    tree:add(f.class, frame(INNER_AT, 2), dscp)
    if bit.band(class, 3) == 3 then
        tree:add(f.ce, frame(INNER_AT, 2), true)
        tree:add_proto_expert_info(note.ce)
    end
    local trimmed = dscp == 12 or dscp == 16
    if trimmed then
        tree:add(f.trimmed, frame(INNER_AT, 2), true)
        tree:add_proto_expert_info(note.trimmed)
    end
    return trimmed
end

-- The header that the opcode calls for, then payload and ICRC where the packet is whole.
local function add_body(tree, bth, opcode, flags, trimmed, info)
    local wanted = header_bytes(opcode, flags)
    if not wanted or 12 + wanted > bth:len() then
        tree:add_proto_expert_info(note.short)
        return
    end
    local at = (body[opcode] or body.write)(bth, 12, tree, opcode, flags, info)
    if trimmed or bth:len() < at + 4 then return end
    if opcode <= 0xCB then
        local pad = bit.band(bit.rshift(bth(1, 1):uint(), 4), 3)
        tree:add(f.payload, bth:len() - at - 4 - pad):set_generated()
    end
    tree:add(f.icrc, bth(bth:len() - 4, 4))
end

local function add_pair(tree, frame, number, dqp, opcode, psn, cack, visited)
    if not visited then
        local from, to = tostring(frame(INNER_AT + 8, 16):bytes()), tostring(frame(INNER_AT + 24, 16):bytes())
        key_of[number] = learn(from, to, dqp, opcode, psn, cack)
    end
    local pair = pair_of[key_of[number]]
    if pair then tree:add(f.qp, pair):set_generated() end
end

local function is_mrc(bth) return bth:len() >= 12 and bit.rshift(bth(0, 1):uint(), 5) == 6 end

-- Two IPv6 headers right behind Ethernet, as every frame of this fabric has.
local function tunnelled(frame)
    return frame:len() >= BTH_AT + 12 and frame(12, 2):uint() == 0x86DD and frame(20, 1):uint() == 41
        and frame(INNER_AT + 6, 1):uint() == 17 and frame(UDP_AT + 2, 2):uint() == UDP_PORT
end

-- Runs after all others, on the whole frame: a trimmed packet is shorter than its headers say, which UDP's own
-- dissector refuses to look into.
function mrc.dissector(frame, pinfo, root)
    if not tunnelled(frame) then return end
    local bth = frame:range(BTH_AT):tvb()
    if not is_mrc(bth) then return end
    local opcode, flags = bth(0, 1):uint(), bth(8, 1):uint()
    local psn, dqp = bth(9, 3):uint(), bth(5, 3):uint()
    local tree, info = root:add(mrc, bth()), { text = "" }
    local trimmed = add_carriage(tree, frame)
    tree:add(f.opcode, bth(0, 1)); tree:add(f.dqp, bth(5, 3))
    tree:add(f.ackreq, bth(8, 1)); tree:add(f.rtx, bth(8, 1)); tree:add(f.ts_present, bth(8, 1))
    local rtx = bit.band(flags, 0x20) ~= 0
    if rtx then tree:add_proto_expert_info(note.rtx) end
    if dqp == ENDPOINT_QPN then tree:add(f.request_id, bth(10, 2)) else tree:add(f.psn, bth(9, 3)) end
    add_body(tree, bth, opcode, flags, trimmed, info)
    if dqp ~= ENDPOINT_QPN then
        add_pair(tree, frame, pinfo.number, dqp, opcode, psn, info.cack, pinfo.visited)
    end
    local what = string.format("%s QP 0x%06x PSN %d%s", OPCODES[opcode] or string.format("opcode %02x", opcode), dqp, psn, info.text)
    tree:append_text(", " .. what)
    pinfo.cols.protocol = "MRC"
    pinfo.cols.info = (trimmed and "[trimmed] " or "") .. (rtx and "[retransmission] " or "") .. what
end

register_postdissector(mrc)

-- RoCEv2 shares the UDP port: what is not MRC goes on to its own dissector.
local port = Proto("mrc_port", "MRC on RoCEv2's UDP port")
local roce = DissectorTable.get("udp.port"):get_dissector(UDP_PORT)
function port.dissector(tvb, pinfo, root)
    if is_mrc(tvb) or not roce then return tvb:len() end
    return roce:call(tvb, pinfo, root)
end
DissectorTable.get("udp.port"):add(UDP_PORT, port)
