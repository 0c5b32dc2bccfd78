-- pyddsi.lua - the protocol of pyddsi and zhe in Wireshark and tshark.
--
-- The file is long because a plug-in is one file that people copy. It is the same rooms in a row as everywhere in this house:
--
--     tables    what a message looks like, made from csrc/wire/table.c
--     numbers   of more bits than Lua's own can hold
--     read      bytes ─► messages and the fault that ends them; knows no packet but these bytes
--     follow    messages ─► what docs/inside/capture.md says about them; holds all state
--     show      both ─► the tree, the columns, the expert items
--     packets   which bytes are ours: ports, learnt endpoints, frames of a connection
--
-- Wireshark dissects a packet many times and in any order, but the first time in the order of the file, and says so
-- (pinfo.visited). State is touched in that first pass alone. What came out is kept by frame, and is all that later passes
-- look at. State never comes from fields of other dissectors either: without a tree, as when a file is loaded, there are none.
--
-- It keeps to what Lua 5.2 and 5.4 have in common, because Wireshark changed over with version 4.4: no operators on bits, and
-- no number that only an integer can hold.

local pyddsi = Proto("pyddsi", "pyddsi (Zenoh of zhe)")

-- tables -----------------------------------------------------------------------------------------------------------------

-- made by tools/generate.py
local MESSAGES = {
  [1] = {name = "SCOUT", part = "A",
    flags = {{bit = 0x20, letter = "P"}},
    fields = {{"mask", "NUMBER64", values = {[1] = "broker", [2] = "durability", [4] = "peer", [8] = "client"}, bits = true, text = "whom the sender looks for"},
      {"properties", "PROPERTIES", flag = 0x20, text = "properties"}}},
  [2] = {name = "HELLO", part = "A",
    flags = {{bit = 0x20, letter = "P"}},
    fields = {{"mask", "NUMBER64", values = {[1] = "broker", [2] = "durability", [4] = "peer", [8] = "client"}, bits = true, text = "what the sender is"},
      {"locators", "LOCATORS", text = "the multicast groups that the sender has joined"},
      {"properties", "PROPERTIES", flag = 0x20, text = "properties"}}},
  [3] = {name = "OPEN", part = "A",
    flags = {{bit = 0x20, letter = "P"}},
    fields = {{"version", "BYTE", text = "protocol version, 1"},
      {"id", "PEER_ID", text = "who opens"},
      {"lease", "NUMBER32", text = "how long to wait for a sign of life, in 100 ms; 0 is for ever"},
      {"locators", "LOCATORS", text = "the multicast groups that the sender has joined"},
      {"properties", "PROPERTIES", flag = 0x20, text = "properties"}}},
  [4] = {name = "ACCEPT", part = "A",
    flags = {{bit = 0x20, letter = "P"}},
    fields = {{"opener", "PEER_ID", text = "who opened"},
      {"acceptor", "PEER_ID", text = "who accepts"},
      {"lease", "NUMBER32", text = "how long to wait for a sign of life, in 100 ms; 0 is for ever"},
      {"properties", "PROPERTIES", flag = 0x20, text = "properties"}}},
  [5] = {name = "CLOSE", part = "A",
    flags = {},
    fields = {{"id", "PEER_ID", text = "who closes"},
      {"reason", "BYTE", values = {[0] = "ordinary", [1] = "authentication", [2] = "protocol-version", [3] = "out-of-resources", [4] = "sequence-length", [5] = "parameter", [6] = "declarations", [255] = "other"}, text = "why"}}},
  [6] = {name = "DECLARE", part = "A",
    flags = {{bit = 0x20, letter = "S", name = "sync"}, {bit = 0x40, letter = "C", name = "committed"}},
    fields = {{"sn", "SN", text = "number in the conduit's reliable counter"},
      {"declarations", "DECLARATIONS", text = "one or more declarations"}}},
  [7] = {name = "SDATA", part = "A",
    flags = {{bit = 0x20, letter = "S", name = "sync"}, {bit = 0x40, letter = "R", name = "reliable"}, {bit = 0x80, letter = "A"}},
    fields = {{"sn", "SN", text = "number in the conduit's counter, reliable or not"},
      {"rid", "ID", text = "the resource; with A the selection or pattern that it is sent for"},
      {"data_rid", "ID_NONE", flag = 0x80, text = "the resource that the data belongs to; 0 ends a pull"},
      {"payload", "BYTES", text = "the sample"}}},
  [8] = {name = "BDATA", part = "B",
    flags = {{bit = 0x20, letter = "S", name = "sync"}, {bit = 0x40, letter = "R", name = "reliable"}, {bit = 0x80, letter = "A", name = "actual"}},
    fields = {{"sn", "SN", text = "number in the conduit's counter, reliable or not"},
      {"rid", "ID", text = "the resource; with A the selection or pattern that it is sent for"},
      {"samples", "SAMPLES", text = "the samples"}}},
  [9] = {name = "WDATA", part = "A",
    flags = {{bit = 0x20, letter = "S", name = "sync"}, {bit = 0x40, letter = "R", name = "reliable"}},
    fields = {{"sn", "SN", text = "number in the conduit's counter, reliable or not"},
      {"uri", "TEXT", text = "name of the resource, may hold wildcards"},
      {"payload", "BYTES", text = "the sample"}}},
  [10] = {name = "QUERY", part = "R",
    flags = {},
    fields = {}},
  [11] = {name = "PULL", part = "B",
    flags = {{bit = 0x20, letter = "S", name = "sync"}, {bit = 0x40, letter = "N"}, {bit = 0x80, letter = "F", name = "final"}},
    fields = {{"sn", "SN", text = "number in the conduit's reliable counter"},
      {"rid", "ID", text = "the resource or selection"},
      {"limit", "NUMBER32", flag = 0x40, text = "how many samples at the most"}}},
  [12] = {name = "PING", part = "A",
    flags = {},
    fields = {{"hash", "HASH", text = "comes back in the PONG"}}},
  [13] = {name = "PONG", part = "A",
    flags = {},
    fields = {{"hash", "HASH", text = "the PING's"}}},
  [14] = {name = "SYNCH", part = "A",
    flags = {{bit = 0x20, letter = "S", name = "sync"}, {bit = 0x40, letter = "R", name = "reliable"}, {bit = 0x80, letter = "U"}},
    fields = {{"sn", "SN", text = "the next number to be sent"},
      {"count", "SN", flag = 0x80, text = "how many messages before it are unacknowledged"}}},
  [15] = {name = "ACKNACK", part = "A",
    flags = {{bit = 0x20, letter = "M"}},
    fields = {{"sn", "SN", text = "everything before it has arrived"},
      {"mask", "NUMBER64", flag = 0x20, text = "sn is wanted again, and sn + 1 + i for each bit i"}}},
  [16] = {name = "KEEPALIVE", part = "A",
    flags = {},
    fields = {{"id", "PEER_ID", text = "who lives"}}},
  [17] = {name = "CONDUIT CLOSE", part = "B",
    flags = {},
    fields = {{"left", "NUMBER16", text = "the conduit"}}},
  [18] = {name = "FRAG", part = "B", marker = true,
    flags = {{bit = 0x40, letter = "N"}},
    fields = {{"first", "SN", text = "number of the first fragment"},
      {"fragments", "NUMBER32", flag = 0x40, text = "how many fragments the sample has"}}},
  [19] = {name = "CONDUIT", part = "A", marker = true,
    flags = {{bit = 0x80, letter = "Z"}},
    fields = {{"conduit", "MARKER", text = "the conduit; 0 if there is no marker"}}},
  [20] = {name = "MIGRATE", part = "B",
    flags = {{bit = 0x20, letter = "I"}},
    fields = {{"left", "NUMBER16", text = "the conduit left behind"},
      {"rid", "ID", flag = 0x20, text = "the resource or selection that moves"},
      {"last_reliable", "SN", text = "the last reliable number there"},
      {"last_unreliable", "SN", text = "the last unreliable number there"}}},
  [21] = {name = "SDATA DELTA", part = "R",
    flags = {},
    fields = {}},
  [22] = {name = "BDATA DELTA", part = "R",
    flags = {},
    fields = {}},
  [23] = {name = "WDATA DELTA", part = "R",
    flags = {},
    fields = {}},
  [24] = {name = "RSPACE", part = "B", marker = true,
    flags = {{bit = 0x80, letter = "Z"}},
    fields = {{"space", "MARKER", text = "the space: 0 is the default, 1 is the brokers'"}}},
}

local DECLARATIONS = {
  [1] = {name = "RESOURCE", part = "A",
    flags = {{bit = 0x20, letter = "P"}},
    fields = {{"id", "RID", text = "the resource"},
      {"uri", "TEXT", text = "its name"},
      {"properties", "PROPERTIES", flag = 0x20, text = "properties"}}},
  [2] = {name = "PUBLICATION", part = "A",
    flags = {{bit = 0x20, letter = "P"}},
    fields = {{"id", "RID", text = "the resource"},
      {"properties", "PROPERTIES", flag = 0x20, text = "properties"}}},
  [3] = {name = "SUBSCRIPTION", part = "A",
    flags = {{bit = 0x20, letter = "P"}},
    fields = {{"id", "ID", text = "the resource or selection"},
      {"mode", "BYTE", values = {[1] = "push", [2] = "pull", [3] = "periodic-push", [4] = "periodic-pull", [5] = "push-pull"}, text = "how samples are to come"},
      {"origin", "NUMBER64", when = "IF_PERIODIC", text = "begin of the first window, in ms"},
      {"period", "NUMBER64", when = "IF_PERIODIC", text = "from window to window, in ms"},
      {"duration", "NUMBER64", when = "IF_PERIODIC", text = "length of a window, in ms, below the period"},
      {"properties", "PROPERTIES", flag = 0x20, text = "properties"}}},
  [4] = {name = "SELECTION", part = "A",
    flags = {{bit = 0x20, letter = "P"}, {bit = 0x80, letter = "G", name = "is_global"}},
    fields = {{"id", "SID", text = "the selection"},
      {"query", "TEXT", text = "resource#{tag,tag}?{predicate}"},
      {"properties", "PROPERTIES", flag = 0x20, text = "properties"}}},
  [5] = {name = "BINDING", part = "A",
    flags = {{bit = 0x80, letter = "G", name = "is_global"}},
    fields = {{"id", "SID", text = "the selection"},
      {"new_id", "ID", text = "the id that it may also have"}}},
  [6] = {name = "COMMIT", part = "A",
    flags = {},
    fields = {{"commit", "BYTE", text = "its number"}}},
  [7] = {name = "RESULT", part = "A",
    flags = {},
    fields = {{"commit", "BYTE", text = "the commit's number"},
      {"status", "BYTE", values = {[0] = "ok", [1] = "no-space", [2] = "conflict", [3] = "too-large", [4] = "try-again", [5] = "invalid", [6] = "unsupported", [7] = "other"}, text = "how it went"},
      {"id", "ID", when = "IF_FAILED", text = "the id that was at fault"}}},
  [8] = {name = "FORGET RESOURCE", part = "A",
    flags = {},
    fields = {{"id", "RID", text = "the resource"}}},
  [9] = {name = "FORGET PUBLICATION", part = "A",
    flags = {},
    fields = {{"id", "RID", text = "the resource"}}},
  [10] = {name = "FORGET SUBSCRIPTION", part = "A",
    flags = {},
    fields = {{"id", "ID", text = "the resource or selection"}}},
  [11] = {name = "FORGET SELECTION", part = "A",
    flags = {},
    fields = {{"id", "SID", text = "the selection"}}},
}

local ITEMS = {
  ["LOCATOR"] = {name = "LOCATOR", part = "A",
    flags = {},
    fields = {{"text", "TEXT", text = "udp/ADDRESS:PORT, tcp/.."}}},
  ["PROPERTY"] = {name = "PROPERTY", part = "A",
    flags = {},
    fields = {{"id", "NUMBER64", values = {[0] = "vendor", [1] = "extensions", [2] = "conduits", [3] = "incarnation", [4] = "sequence-bits", [6] = "reliability", [8] = "durability", [10] = "commit-mode", [12] = "authentication", [14] = "client-hash"}, text = "which; odd ones are vendors'"},
      {"value", "BYTES", text = "its value"}}},
  ["SAMPLE"] = {name = "SAMPLE", part = "B",
    flags = {{bit = 0x80, letter = "A"}},
    fields = {{"rid", "ID_NONE", flag = 0x80, text = "the resource that it belongs to"},
      {"payload", "BYTES", text = "the sample"}}},
}

local RULES = {
  CUT = "the message runs past the end of the packet",
  KIND_UNKNOWN = "no message has this kind",
  KIND_RESERVED = "the kind is reserved and has no body",
  KIND_EXTENSION = "the kind is an extension that was not announced",
  NUMBER_WIDE = "the number does not fit its field",
  SN_RANGE = "the number is at or above 2 to the sequence number length",
  LENGTH_WIDE = "the length or count is over 65535",
  ID_WIDE = "the id is over the receiver's width",
  DECLARATION_KIND = "no declaration has this kind",
  MODE = "a subscription mode is 1 to 5",
  FRAME_LENGTH = "a frame length has one or two bytes",
  FRAME_LIMIT = "the frame or message is over the receiver's limit",
}
-- end of what is made

local KIND = {}
for number, row in pairs(MESSAGES) do KIND[row.name] = number end

-- What belongs to a conduit, what has flag S, what has flag R, and what counts: see docs/inside/capture.md.
local function kinds(...)
  local set = {}
  for _, name in ipairs({...}) do set[KIND[name]] = true end
  return set
end
local COUNTS = kinds("DECLARE", "PULL", "SDATA", "BDATA", "WDATA")
local SOLICITS = kinds("DECLARE", "PULL", "SDATA", "BDATA", "WDATA", "SYNCH")
local ALWAYS_RELIABLE = kinds("DECLARE", "PULL", "MIGRATE")
local ON_CONDUITS = kinds("DECLARE", "PULL", "SDATA", "BDATA", "WDATA", "SYNCH", "ACKNACK", "MIGRATE")

-- numbers ----------------------------------------------------------------------------------------------------------------

-- A number is one of Lua's own below 2^53, and a UInt64 from there on.
local EXACT = 2 ^ 53

local function is_long(n) return type(n) ~= "number" end

local function to_long(n) return is_long(n) and n or UInt64.new(n) end

local function shown(n) return is_long(n) and tostring(n) or string.format("%d", n) end

local function is_above_0(n) return is_long(n) or n > 0 end

-- n + d, where d is an ordinary number, as an Int64: for a field.
local function plus(n, d)
  if not is_long(n) then return Int64.new(n) + Int64.new(d) end
  return Int64.new(n:lower(), n:higher()) + Int64.new(d)
end

-- Whether a number does not fit into so many bits, which are 56 at most.
local function beyond(n, bits)
  if not is_long(n) then return n >= 2 ^ bits end
  return n:rshift(bits):tonumber() ~= 0
end

-- How far a is ahead of b, modulo 2^bits: from -2^(bits-1) to 2^(bits-1) - 1. Exact unless it is beyond 2^53.
local function ahead_of(a, b, bits)
  if is_long(a) or is_long(b) then
    local rest = (to_long(a) - to_long(b)):lshift(64 - bits)
    return Int64.new(rest:lower(), rest:higher()):arshift(64 - bits):tonumber()
  end
  local whole, d = 2 ^ bits, a - b
  if bits < 53 then d = d % whole end
  if d >= whole / 2 then return d - whole end
  if d < -whole / 2 then return d + whole end
  return d
end

-- An id as the columns have it: half of what is on the wire, and negative if it is a selection's.
local function id_of(n)
  if is_long(n) then
    local half = n:rshift(1)
    return n:band(UInt64.new(1)):tonumber() == 1 and -Int64.new(half:lower(), half:higher())
      or Int64.new(half:lower(), half:higher())
  end
  return n % 2 == 1 and -(n - 1) / 2 or n / 2
end

local function id_text(id)
  local text = shown(id)
  return text:sub(1, 1) == "-" and "s" .. text:sub(2) or text
end

-- read -------------------------------------------------------------------------------------------------------------------

-- The largest value and the most bytes of each type of number, and the rule that one beyond them breaks.
local NUMBERS = {
  NUMBER64 = {2 ^ 64, 10, "NUMBER_WIDE"},
  NUMBER32 = {2 ^ 32 - 1, 5, "NUMBER_WIDE"},
  NUMBER16 = {65535, 3, "NUMBER_WIDE"},
  HASH = {65535, 3, "NUMBER_WIDE"},
  MARKER = {65535, 3, "NUMBER_WIDE"},
  LENGTH = {65535, 3, "LENGTH_WIDE"},
  SN = {2 ^ 64, 10, "SN_RANGE"},
  RID = {2 ^ 64, 10, "ID_WIDE"},
  SID = {2 ^ 64, 10, "ID_WIDE"},
  ID = {2 ^ 64, 10, "ID_WIDE"},
  ID_NONE = {2 ^ 64, 10, "ID_WIDE"},
}
local IS_ID = {RID = true, SID = true, ID = true, ID_NONE = true}

-- A reader walks over `bytes` from byte `at`, counted from 0. `rule` and `fault_at` say what stopped it; `longer`, that a
-- number had more bytes than it needs.
local function reader(bytes, at) return {bytes = bytes, at = at or 0} end

local function fault(r, rule, at)
  r.rule, r.fault_at = rule, at
  return nil
end

-- A number of a type, or nil and a fault. 28 bits go into `low` and the rest into `high`, since neither alone holds 64.
local function number(r, kind)
  local max, most, rule = NUMBERS[kind][1], NUMBERS[kind][2], NUMBERS[kind][3]
  local low, high = 0, 0
  for i = 0, most - 1 do
    local byte = r.bytes:byte(r.at + i + 1)
    if not byte then return fault(r, "CUT", r.at) end
    local group = byte % 128
    if i == 9 and group > 1 then return fault(r, rule, r.at) end
    if i < 4 then low = low + group * 2 ^ (7 * i) else high = high + group * 2 ^ (7 * (i - 4)) end
    if high * 2 ^ 28 + low > max then return fault(r, rule, r.at) end
    if byte < 128 then
      r.longer = r.longer or (byte == 0 and i > 0)
      r.at = r.at + i + 1
      if high < 2 ^ 25 then return math.floor(high * 2 ^ 28 + low) end -- in Lua 5.4 this makes it an integer, which shows as one
      return UInt64.new(high % 16 * 2 ^ 28 + low, math.floor(high / 16))
    end
  end
  return fault(r, rule, r.at)
end

-- Where a vector's bytes are and how many there are.
local function vector(r)
  local begin = r.at
  local size = number(r, "LENGTH")
  if not size then return nil end
  if size > #r.bytes - r.at then return fault(r, "CUT", begin) end
  r.at = r.at + size
  return r.at - size, size
end

local function has(flags, bit) return math.floor(flags / bit) % 2 == 1 end

local function present(field, flags, values)
  if field.flag then return has(flags, field.flag) end
  if field.when == "IF_PERIODIC" then return values.mode == 3 or values.mode == 4 end
  if field.when == "IF_FAILED" then return values.status ~= 0 end
  return true
end

-- A field of a record, into its `values` by name and its `parts` in order: {name, value, at, size}, or {name, items, at, size}.
local function scalar(r, record, field)
  local begin = r.at
  local name, kind = field[1], field[2]
  local value, size
  if kind == "MARKER" and has(record.flags, 0x80) then
    begin, value, size = r.at - 1, math.floor(record.flags / 32) % 4 + 1, 1
  elseif NUMBERS[kind] then
    value = number(r, kind)
    if not value then return false end
    if IS_ID[kind] then value = id_of(value) end
    size = r.at - begin
  elseif kind == "BYTE" then
    value = r.bytes:byte(r.at + 1)
    if not value then return fault(r, "CUT", r.at) end
    r.at, size = r.at + 1, 1
    if name == "mode" and (value < 1 or value > 5) then return fault(r, "MODE", begin) end
  else
    begin, size = vector(r)
    if not begin then return false end
    value = r.bytes:sub(begin + 1, begin + size)
  end
  record.values[name] = value
  record.parts[#record.parts + 1] = {name = name, value = value, at = begin, size = size}
  return true
end

-- The items of a list, whose fields go by the flags of the message. Each has a byte at least, so the packet bounds the loop.
local function list(r, record, field, read_item)
  local begin = r.at
  local count = number(r, "LENGTH")
  if not count then return false end
  local items = {}
  record.values[field[1]] = items
  for _ = 1, count do
    local item = read_item(r, record.flags)
    if not item then return false end
    items[#items + 1] = item
  end
  record.parts[#record.parts + 1] = {name = field[1], items = items, at = begin, size = r.at - begin}
  return true
end

local read_declaration

local function item_reader(row)
  return function(r, flags)
    local item = {row = row, at = r.at, flags = flags, values = {}, parts = {}}
    for _, field in ipairs(row.fields) do
      if present(field, flags, item.values) and not scalar(r, item, field) then return nil end
    end
    item.size = r.at - item.at
    return item
  end
end

local LISTS = {
  LOCATORS = item_reader(ITEMS.LOCATOR),
  PROPERTIES = item_reader(ITEMS.PROPERTY),
  SAMPLES = item_reader(ITEMS.SAMPLE),
  DECLARATIONS = function(r) return read_declaration(r) end,
}

local function fields(r, record)
  for _, field in ipairs(record.row.fields) do
    if present(field, record.flags, record.values) then
      local read_item = LISTS[field[2]]
      local done
      if read_item then done = list(r, record, field, read_item) else done = scalar(r, record, field) end
      if not done then return false end
    end
  end
  record.size = r.at - record.at
  return true
end

local function header(r, rows, kinds_below)
  local byte = r.bytes:byte(r.at + 1)
  local record = {kind = byte % kinds_below, at = r.at, values = {}, parts = {}}
  record.flags = byte - byte % 32
  record.row = rows[record.kind]
  return record
end

read_declaration = function(r)
  if r.at >= #r.bytes then return fault(r, "CUT", r.at) end
  local record = header(r, DECLARATIONS, 16)
  if not record.row then return fault(r, "DECLARATION_KIND", r.at) end
  r.at = r.at + 1
  return fields(r, record) and record or nil
end

local function kind_rule(row, base_only)
  if not row then return "KIND_UNKNOWN" end
  if row.part == "R" then return "KIND_RESERVED" end
  return row.part == "B" and base_only and "KIND_EXTENSION" or nil
end

-- The next message or marker, or nil and a fault.
local function read_message(r, base_only)
  local record = header(r, MESSAGES, 32)
  local rule = kind_rule(record.row, base_only)
  if rule then return fault(r, rule, r.at) end
  r.at = r.at + 1
  return fields(r, record) and record or nil
end

-- All messages of a packet, and what is wrong behind them. A CONDUIT stays in force, an RSPACE belongs to one message.
-- `one` stops behind the first message that is no marker, which is a packet where a connection has no frames.
local function read_packet(bytes, at, base_only, one)
  local r = reader(bytes, at)
  local conduit, space, found = 0, 0, {}
  while r.at < #bytes do
    local message = read_message(r, base_only)
    if not message then break end
    conduit = message.values.conduit or conduit
    space = message.values.space or space
    message.conduit, message.space = conduit, space
    found[#found + 1] = message
    if not message.row.marker then
      space = 0
      if one then break end
    end
  end
  return found, r.rule and {rule = r.rule, at = r.fault_at}, r
end

-- follow -----------------------------------------------------------------------------------------------------------------

local HISTORY = 8192     -- numbers of a flow whose times are remembered
local STRETCHES, BEST_STRETCHES = 1024, 64 -- of missing numbers of a flow that are remembered, and of one of best effort
local PACE_MESSAGES = 16 -- what a flow's pace is told from, at least
local ANEW_FIRST, ANEW_BACK = 16, 64 -- the first numbers of a counter that begins anew, if so far below the highest
local FAR = 2 ^ 31       -- a number as far away as this is not of the counter
local BITS_MAX = 56

local FIRST, NEXT, GAP, REPEAT, FILL, OLD, RESET, AMBIGUOUS, PRE_SYNC = 1, 0, 2, 3, 4, 5, 6, 7, 8
local EVENTS = {
  [FIRST] = "first", [NEXT] = "next", [GAP] = "gap before", [REPEAT] = "repeat", [FILL] = "fills a gap", [OLD] = "old",
  [RESET] = "reset", [AMBIGUOUS] = "ambiguous", [PRE_SYNC] = "pre-sync",
}

-- By endpoint; by flow; by id, who gave it a name last; and by frame what came out. `proto.init` empties them for every file.
local senders, flows, named_last, calls

local function sender_of(endpoint)
  local sender = senders[endpoint]
  if not sender then
    sender = {lives = 0, handshakes = 0, cuts = 0, synched = {}, names = {}, flows = {}}
    senders[endpoint] = sender
  end
  return sender
end

local function flow_key(source, conduit, reliable, to)
  return table.concat({source, conduit, tostring(reliable), to or "multicast"}, " ")
end

-- A flow, made if there is none. Its numbers are kept as distances from the epoch's first, `origin`, so that Lua's own hold them.
local seq_bits = 0 -- a preference; 0: as announced

local function bits_of(endpoint)
  if seq_bits ~= 0 then return seq_bits end
  return sender_of(endpoint).bits or 14
end

local function flow_of(way, source, conduit, reliable, to)
  local key = flow_key(source, conduit, reliable, to)
  local flow = flows[key]
  if not flow then
    flow = {epoch = 0, reliable = reliable, text = way .. " c" .. conduit .. (reliable and " reliable" or " best effort")}
    flow.answered, flow.missing, flow.seen, flow.bits = {}, 0, 0, bits_of(source)
    flow.cuts = sender_of(source).cuts
    flow.group_conduit = reliable and not to and conduit
    flows[key] = flow
    table.insert(sender_of(source).flows, flow)
  end
  return flow
end

local function flow_told(source, conduit, to)
  local multicast = flows[flow_key(source, conduit, true, nil)]
  if multicast and multicast.origin then return multicast end
  return flows[flow_key(source, conduit, true, to)]
end

local function micros(since, now)
  if not since or now < since then return nil end
  return math.floor((now - since) / 1000)
end

-- The highest number of a flow.
local function top(flow)
  local sum = not is_long(flow.origin) and flow.origin + flow.highest or EXACT
  return sum < EXACT and sum or to_long(flow.origin) + UInt64.new(flow.highest)
end

-- Whether a message begins its flow or an epoch of it.
local function begins(flow, sender, sn)
  if not flow.origin then
    if not flow.synch and sender.synched[flow.group_conduit] then flow.synch = -1 end
    return FIRST
  end
  local ahead = ahead_of(sn, top(flow), flow.bits)
  local again = sender.handshakes > flow.handshakes and ahead ~= 1
  if sn == 0 then
    again = again and is_above_0(top(flow)) and not flow.asked_for_0
  else
    again = again and not is_long(sn) and sn < ANEW_FIRST and -ahead >= ANEW_BACK and not flow.asked
  end
  if not again and sender.lives == flow.lives then return nil end
  local synch = flow.synch == sender.handshakes and flow.synch or nil
  flow.epoch, flow.synch, flow.before_synch = flow.epoch + 1, synch, nil
  flow.answered, flow.missing, flow.seen, flow.begun = {}, 0, 0, nil
  flow.solicited, flow.asked_for_0, flow.asked = nil, nil, nil
  return RESET
end

-- Nothing is known of what is below a number.
local function begin_at(flow, usn)
  flow.lowest, flow.highest, flow.stretches, flow.firsts = usn, usn, {}, {}
end

-- Whether a flow could have gone half round since its last message, at its own pace.
local function could_have_wrapped(flow, now)
  if flow.seen < PACE_MESSAGES or not flow.begun then return false end
  local lived, silent = flow.last - flow.begun, now - flow.last
  return lived > 0 and silent > 0 and silent * flow.seen > lived * 2 ^ (flow.bits - 1)
end

-- The place of the stretch that a missing number is in.
local function stretch_of(flow, usn)
  for i, stretch in ipairs(flow.stretches) do
    if stretch.from <= usn and usn <= stretch.to then return i end
  end
  return nil
end

-- A stretch of missing numbers, in its place. The lowest makes room if there are too many.
local function lack(flow, at, from, to)
  if from <= to then table.insert(flow.stretches, at, {from = from, to = to}) end
  if #flow.stretches > (flow.reliable and STRETCHES or BEST_STRETCHES) then flow.lowest = table.remove(flow.stretches, 1).to + 1 end
end

local function fill(flow, usn)
  local at = stretch_of(flow, usn)
  local stretch = table.remove(flow.stretches, at)
  lack(flow, at, usn + 1, stretch.to)
  lack(flow, at, stretch.from, usn - 1)
end

-- What a number is to a flow that has begun, and its distance from the first.
local function place(flow, sn, now, cut)
  local ahead = ahead_of(sn, top(flow), flow.bits)
  if math.abs(ahead) >= FAR then return AMBIGUOUS, nil end
  local usn = flow.highest + ahead
  if ahead > 1 and (cut or could_have_wrapped(flow, now)) then return AMBIGUOUS, usn end
  if ahead > 0 then return ahead == 1 and NEXT or GAP, usn end
  local missing = stretch_of(flow, usn)
  if -ahead >= 2 ^ (flow.bits - 3) and not missing and could_have_wrapped(flow, now) then
    return AMBIGUOUS, usn + 2 ^ flow.bits
  end
  if missing then return FILL, usn end
  if not flow.reliable then return OLD, usn end
  if usn < flow.lowest then return AMBIGUOUS, usn end
  local early = not flow.synch or (flow.before_synch and usn <= flow.before_synch)
  return early and PRE_SYNC or REPEAT, usn
end

-- The highest is another one, and what falls out of the history is forgotten.
local function raise(flow, usn)
  for gone = flow.highest + 1, math.min(usn, flow.highest + HISTORY) do flow.firsts[gone - HISTORY] = nil end
  flow.highest = usn
end

-- What a number changes in its flow.
local function take(flow, event, usn, at, out)
  local begins_there = event == FIRST or event == RESET or event == AMBIGUOUS and usn > flow.highest
  if begins_there then
    begin_at(flow, usn)
  elseif event == GAP then
    out.gap = usn - flow.highest - 1
    flow.missing = flow.missing + out.gap
    lack(flow, #flow.stretches + 1, flow.highest + 1, usn - 1)
  elseif event == FILL then
    flow.missing = flow.missing - 1
    fill(flow, usn)
  elseif (event == REPEAT or event == PRE_SYNC) and flow.firsts[usn] then
    out.since_first_us = micros(flow.firsts[usn].time, at.time)
    out.first_frame = flow.firsts[usn].frame
  end
  if usn > flow.highest then raise(flow, usn) end
  if begins_there or event == NEXT or event == GAP or event == FILL and flow.highest - usn < HISTORY then
    flow.firsts[usn] = {time = at.time, frame = at.frame}
  end
end

-- A message that counts.
local function count(flow, sender, message, at, out)
  local sn = message.values.sn
  local event, usn = AMBIGUOUS, nil
  if not beyond(sn, BITS_MAX) then
    if beyond(sn, flow.bits) then flow.bits = not beyond(sn, 14) and 14 or not beyond(sn, 28) and 28 or BITS_MAX end
    event = begins(flow, sender, sn)
    if event then
      flow.origin, flow.covered, usn = sn, 0, 0
    else
      event, usn = place(flow, sn, at.time, sender.cuts ~= flow.cuts)
    end
  end
  if usn then take(flow, event, usn, at, out) end
  if sn == 0 then flow.asked_for_0 = nil end
  flow.asked = nil
  flow.lives, flow.handshakes, flow.cuts = sender.lives, sender.handshakes, sender.cuts
  flow.seen, flow.begun, flow.last = flow.seen + 1, flow.begun or at.time, at.time
  out.usn = usn and plus(flow.origin, usn)
  out.epoch, out.seq_event, out["seq.missing"] = flow.epoch, event, flow.missing
end

local function solicit(flow, at)
  flow.solicited = {number = (flow.solicited and flow.solicited.number or 0) + 1, time = at.time}
end

local function synch(message, at, out)
  local sender = sender_of(at.source)
  local flow = flow_told(at.source, message.conduit, at.to) or flow_of(at.way, at.source, message.conduit, true, at.to)
  if not flow.synch and flow.origin then flow.before_synch = flow.highest end
  flow.synch = sender.handshakes
  sender.synched[message.conduit] = true
  if has(message.flags, 0x20) then solicit(flow, at) end
  out.flow, out.epoch = flow.text, flow.epoch
end

local function acknack(message, at, out)
  local flow = flow_told(at.target, message.conduit, at.source)
  if not flow then return end
  out.flow, out.epoch = flow.text, flow.epoch
  if flow.solicited and flow.answered[at.source] ~= flow.solicited.number then
    flow.answered[at.source] = flow.solicited.number
    out.answer_ns = flow.solicited.time <= at.time and at.time - flow.solicited.time or nil
    out.answer_us = micros(flow.solicited.time, at.time)
  end
  local sn = message.values.sn
  if sn == 0 and message.values.mask then flow.asked_for_0 = true end
  if message.values.mask then flow.asked = true end
  if beyond(sn, flow.bits) then return end
  if not flow.origin then
    out.ack_usn = plus(sn, 0)
    return
  end
  local ahead = ahead_of(sn, top(flow), flow.bits)
  if math.abs(ahead) >= FAR then return end
  out.ack_usn = plus(flow.origin, flow.highest + ahead)
  local covers = math.min(flow.highest + ahead, flow.highest + 1)
  if covers > flow.covered then
    flow.covered = covers
    local first = flow.firsts[covers - 1]
    out.delivery_us = first and micros(first.time, at.time)
  end
end

-- The bits that the value of property 4 says, if it is one whole number.
local function bits_said(value)
  local r = reader(value)
  local bits = number(r, "NUMBER64")
  return bits and r.at == #value and not is_long(bits) and bits >= 7 and bits <= 56 and bits or nil
end

-- The value of the first property of an id, or nil.
local function property(message, id)
  for _, found in ipairs(message.values.properties or {}) do
    if found.values.id == id then return found.values.value end
  end
  return nil
end

-- Another id is another life.
local function says_id(sender, id)
  if #id < 1 or #id > 16 or sender.peer_id == id then return end
  if sender.peer_id then
    sender.lives, sender.synched = sender.lives + 1, {}
    for _, flow in ipairs(sender.flows) do flow.synch = nil end
  end
  sender.peer_id = id
end

local function handshake(message, at)
  local sender = sender_of(at.source)
  sender.handshakes = sender.handshakes + 1
  if message.kind == KIND.HELLO then return end
  sender.base_only = not property(message, 1)
  local bits
  if message.kind == KIND.OPEN then
    local said = property(message, 4)
    if said then bits = bits_said(said) else bits = 14 end
    sender.opened = sender.opened or bits ~= nil
  else
    local other = sender_of(at.target)
    bits = other.opened and other.bits
  end
  if bits and seq_bits == 0 then
    sender.bits = bits
    for _, flow in ipairs(sender.flows) do flow.bits = bits end
  end
  says_id(sender, message.values.acceptor or message.values.id)
end

local function name_key(space, id) return space .. " " .. shown(id) end

local function learn_names(message, sender)
  local names = sender.names
  for _, declaration in ipairs(message.values.declarations) do
    local row, key = declaration.row.name, name_key(message.space, declaration.values.id or 0)
    local name = row == "RESOURCE" and declaration.values.uri or row == "SELECTION" and declaration.values.query
    if name and names[key] ~= name then
      names[key], named_last[key] = name, {sender = sender, name = name}
    elseif row == "FORGET RESOURCE" or row == "FORGET SELECTION" then
      if names[key] and named_last[key] and named_last[key].sender == sender then named_last[key] = nil end
      names[key] = nil
    end
  end
end

-- What a sender calls an id, or else whoever gave it a name last.
local function name_of(sender, space, id)
  local key = name_key(space, id)
  return sender.names[key] or named_last[key] and named_last[key].name
end

-- What the page says about one message. `at` is where it came: source, target and `to` (the target unless it is multicast) as
-- keys, `way` as text, frame and time.
local function follow(message, at)
  local out = {}
  local kind, values = message.kind, message.values
  local sender = sender_of(at.source)
  if kind == KIND.HELLO or kind == KIND.OPEN or kind == KIND.ACCEPT then handshake(message, at) end
  if kind == KIND.KEEPALIVE then says_id(sender, values.id) end
  if kind == KIND.DECLARE then learn_names(message, sender) end
  if kind == KIND.SDATA or kind == KIND.BDATA or kind == KIND.PULL then
    local named = values.data_rid ~= 0 and values.data_rid or values.rid
    out.uri = name_of(sender, message.space, named)
  end
  if COUNTS[kind] then
    local reliable = ALWAYS_RELIABLE[kind] or has(message.flags, 0x40)
    local flow = flow_of(at.way, at.source, message.conduit, reliable, at.to)
    out.flow = flow.text
    count(flow, sender, message, at, out)
    if has(message.flags, 0x20) then solicit(flow, at) end -- of best effort nobody asks how it was answered
  elseif kind == KIND.MIGRATE then
    local flow = flows[flow_key(at.source, message.conduit, true, at.to)]
    if flow then out.flow, out.epoch = flow.text, flow.epoch end
  elseif kind == KIND.SYNCH then
    synch(message, at, out)
  elseif kind == KIND.ACKNACK then
    acknack(message, at, out)
  end
  return out
end

-- show -------------------------------------------------------------------------------------------------------------------

-- Names that differ from the table's: those of the columns.
local RENAMED = {["SYNCH count"] = "outstanding", ["ACKNACK mask"] = "nack_mask", ["LOCATOR text"] = "locator"}

local function abbreviation(row, prefix, name)
  return prefix .. (RENAMED[row.name .. " " .. name] or name)
end

local PREFIX = {LOCATOR = "", PROPERTY = "property.", SAMPLE = "sample."}

-- The fields that the tables make: by name the type, the values, and what the rows say of it.
local MADE, ORDER = {}, {}

local function note(name, field, row)
  local made = MADE[name]
  if not made then
    made = {kind = field[2], values = field.values, bits = field.bits, texts = {}, rows = {}}
    MADE[name] = made
    ORDER[#ORDER + 1] = name
  end
  if not made.rows[field.text] then made.texts[#made.texts + 1] = field.text end
  made.rows[field.text] = (made.rows[field.text] and made.rows[field.text] .. ", " or "") .. row.name
end

local function note_rows(rows, prefix_of)
  local numbers = {}
  for number in pairs(rows) do numbers[#numbers + 1] = number end
  table.sort(numbers)
  for _, number in ipairs(numbers) do
    local row = rows[number]
    for _, field in ipairs(row.fields) do
      if not LISTS[field[2]] then note(abbreviation(row, prefix_of(row), field[1]), field, row) end
    end
  end
end

note_rows(MESSAGES, function(row) return row.marker and "marker." or "" end)
note_rows(DECLARATIONS, function() return "declaration." end)
note_rows(ITEMS, function(row) return PREFIX[row.name] end)

local TYPES = {
  BYTE = ftypes.UINT8, NUMBER16 = ftypes.UINT16, HASH = ftypes.UINT16, MARKER = ftypes.UINT16, NUMBER32 = ftypes.UINT32,
  NUMBER64 = ftypes.UINT64, SN = ftypes.UINT64, RID = ftypes.INT64, SID = ftypes.INT64, ID = ftypes.INT64,
  ID_NONE = ftypes.INT64, BYTES = ftypes.BYTES, PEER_ID = ftypes.BYTES, TEXT = ftypes.STRING,
}
local HAS_NO_BASE = {
  [ftypes.BYTES] = true, [ftypes.STRING] = true, [ftypes.NONE] = true, [ftypes.BOOLEAN] = true, [ftypes.FRAMENUM] = true,
  [ftypes.RELATIVE_TIME] = true,
}

local F = {}

local function define(name, kind, label, text, values, shown_in)
  local form = HAS_NO_BASE[kind] and base.NONE or shown_in or base.DEC
  F[name] = ProtoField.new(label, "pyddsi." .. name, kind, values, form, nil, text)
end

for _, name in ipairs(ORDER) do
  local made = MADE[name]
  for i, text in ipairs(made.texts) do made.texts[i] = made.rows[text] .. ": " .. text end
  local label = name:gsub("^%l", string.upper):gsub("[._]", " ")
  define(name, TYPES[made.kind], label, table.concat(made.texts, "; "), not made.bits and made.values or nil)
end

local function names_of(rows)
  local names = {}
  for number, row in pairs(rows) do names[number] = row.name end
  return names
end

define("kind", ftypes.UINT8, "Kind", "kind of a message that is no marker", names_of(MESSAGES))
define("marker", ftypes.UINT8, "Marker", "kind of a marker", names_of(MESSAGES))
define("declaration", ftypes.UINT8, "Declaration", "kind of a declaration", names_of(DECLARATIONS))
define("property", ftypes.NONE, "Property", "a property of a message or declaration")
define("sample", ftypes.NONE, "Sample", "a sample of a BDATA")
define("flags", ftypes.UINT8, "Flags", "the upper three bits of a header, also of a declaration's", nil, base.HEX)
define("committed", ftypes.BOOLEAN, "Committed", "flag C of a DECLARE: in effect without a commit")
define("actual", ftypes.BOOLEAN, "Actual", "flag A of a BDATA: each sample names its resource")
define("final", ftypes.BOOLEAN, "Final", "flag F of a PULL: nothing more will be asked")
define("declaration.is_global", ftypes.BOOLEAN, "Global", "flag G of a SELECTION or BINDING")
define("frame_size", ftypes.UINT16, "Frame length", "length in front of a packet in a connection")
define("fault", ftypes.STRING, "Fault", "the rule that the packet breaks")
define("fault.at", ftypes.UINT32, "Fault at", "the byte of the packet where it breaks it")
-- the columns
define("solicit", ftypes.BOOLEAN, "Solicit", "flag S: an ACKNACK is wanted at once")
define("reliable", ftypes.BOOLEAN, "Reliable", "whether it is counted as reliable")
define("conduit", ftypes.UINT32, "Conduit", "the conduit in force")
define("payload_len", ftypes.UINT32, "Payload length", "bytes of the payload, or of all samples")
define("nacked", ftypes.UINT16, "Nacked", "how many messages an ACKNACK wants again")
define("flow", ftypes.STRING, "Flow", "the counter: sender, receiver if it is one, conduit")
define("epoch", ftypes.UINT32, "Epoch", "how often the flow has begun again")
define("usn", ftypes.INT64, "Unwrapped number", "sn without its wrapping around")
define("seq_event", ftypes.UINT8, "Sequence event", "what the number is to its flow", EVENTS)
define("gap", ftypes.UINT32, "Gap", "numbers missing just before this one")
define("since_first_us", ftypes.INT64, "Since first (us)", "since the number was first sent")
define("ack_usn", ftypes.INT64, "Acknowledged up to", "sn of an ACKNACK without its wrapping around")
define("answer_us", ftypes.INT64, "Answer (us)", "since the ACKNACK was asked for")
define("delivery_us", ftypes.INT64, "Delivery (us)", "since the newest message that it covers was first sent")
-- and what only people want who look at packets
define("seq.missing", ftypes.UINT64, "Missing", "numbers of the flow and epoch that are missing up to here")
define("first_frame", ftypes.FRAMENUM, "First sent in", "the frame with the first transmission of a repeat")
define("ack.rtt", ftypes.RELATIVE_TIME, "Answer time", "answer_us as a time")

local X = {
  gap = ProtoExpert.new("pyddsi.expert.gap", "Numbers are missing before this message", expert.group.SEQUENCE, expert.severity.WARN),
  repeated = ProtoExpert.new("pyddsi.expert.repeat", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE),
  pre_sync = ProtoExpert.new("pyddsi.expert.pre_sync", "Sent again, since the receiver had to ignore it before the first SYNCH", expert.group.SEQUENCE, expert.severity.CHAT),
  refused = ProtoExpert.new("pyddsi.expert.refused", "Refused", expert.group.RESPONSE_CODE, expert.severity.WARN),
  malformed = ProtoExpert.new("pyddsi.expert.malformed", "Breaks a rule of the protocol", expert.group.MALFORMED, expert.severity.ERROR),
  truncated = ProtoExpert.new("pyddsi.expert.truncated", "Cut by the snap length", expert.group.UNDECODED, expert.severity.WARN),
}

local EXPERTS = {[GAP] = X.gap, [REPEAT] = X.repeated, [PRE_SYNC] = X.pre_sync}

local all_fields, all_experts = {}, {}
for _, field in pairs(F) do all_fields[#all_fields + 1] = field end
for _, one in pairs(X) do all_experts[#all_experts + 1] = one end
pyddsi.fields, pyddsi.experts = all_fields, all_experts

-- What Wireshark takes for a field of 64 bits.
local WIDE = {[ftypes.UINT64] = UInt64.new, [ftypes.INT64] = Int64.new}

local function letters(record)
  local found = ""
  for _, flag in ipairs(record.row.flags or {}) do
    if has(record.flags, flag.bit) then found = found .. flag.letter end
  end
  return found
end

local function bit_names(values, mask)
  local found = {}
  for bit, name in pairs(values) do
    if not is_long(mask) and has(mask, bit) then found[#found + 1] = {bit, name} end
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  for i, pair in ipairs(found) do found[i] = pair[2] end
  return table.concat(found, "+")
end

-- One field of a record that is no list.
local function show_part(tree, tvb, begin, name, part)
  local made, field = MADE[name], F[name]
  local range = tvb(begin + part.at, part.size)
  if made.kind == "TEXT" then return tree:add_packet_field(field, range, ENC_UTF_8) end
  if TYPES[made.kind] == ftypes.BYTES then return tree:add(field, range) end
  local value = part.value
  if WIDE[TYPES[made.kind]] and not is_long(value) then value = WIDE[TYPES[made.kind]](value) end
  local item = tree:add(field, range, value)
  if made.bits then item:append_text(" (" .. bit_names(made.values, part.value) .. ")") end
  if IS_ID[made.kind] and id_text(part.value):sub(1, 1) == "s" then
    item:append_text(" (selection " .. id_text(part.value) .. ")")
  end
  return item
end

local function show_flags(tree, range, record)
  local item = tree:add(F.flags, range, record.flags)
  if record.flags ~= 0 then item:append_text(" " .. letters(record)) end
end

local function show_named_flags(tree, range, record, prefix)
  for _, flag in ipairs(record.row.flags or {}) do
    local field = flag.name and F[prefix .. flag.name]
    if field and flag.name ~= "reliable" then tree:add(field, range, has(record.flags, flag.bit)) end
  end
end

local show_list

local function show_parts(tree, tvb, begin, record, prefix)
  for _, part in ipairs(record.parts) do
    if part.items then
      show_list(tree, tvb, begin, part)
    else
      show_part(tree, tvb, begin, abbreviation(record.row, prefix, part.name), part)
    end
  end
end

-- A name in a line of ours: what is no letter or sign would steer a terminal, or begin a line that looks like one of ours.
local function plain(name)
  return (name:gsub("[^ -~]", function(byte) return string.format("\\x%02x", byte:byte()) end))
end

local function show_declaration(tree, tvb, begin, declaration)
  local range = tvb(begin + declaration.at, declaration.size)
  local item = tree:add(F.declaration, range, declaration.kind)
  local values = declaration.values
  local text = declaration.row.name
  if values.id then text = text .. " " .. id_text(values.id) end
  if values.commit then text = text .. " " .. values.commit end
  item:set_text(text .. (values.uri and " " .. plain(values.uri) or ""))
  local head = tvb(begin + declaration.at, 1)
  show_flags(item, head, declaration)
  show_named_flags(item, head, declaration, "declaration.")
  show_parts(item, tvb, begin, declaration, "declaration.")
  if values.status and values.status ~= 0 then item:add_proto_expert_info(X.refused) end
end

show_list = function(tree, tvb, begin, list_part)
  for _, item in ipairs(list_part.items) do
    local prefix = PREFIX[item.row.name]
    if not prefix then
      show_declaration(tree, tvb, begin, item)
    elseif prefix == "" then
      show_parts(tree, tvb, begin, item, prefix)
    else
      local range = tvb(begin + item.at, item.size)
      show_parts(tree:add(prefix == "sample." and F.sample or F.property, range), tvb, begin, item, prefix)
    end
  end
end

-- A line about a message: "SDATA SR c1 sn=5 rid=7 (12 bytes) [repeat]".
local function title(message, out)
  local values = message.values
  local words = {message.row.name}
  local flags = letters(message)
  if flags ~= "" and not message.row.marker then words[#words + 1] = flags end
  if ON_CONDUITS[message.kind] then words[#words + 1] = "c" .. message.conduit end
  for _, name in ipairs({"conduit", "space", "first", "sn", "count", "hash"}) do
    if values[name] and not is_long(values[name]) then words[#words + 1] = name .. "=" .. shown(values[name]) end
  end
  if values.rid then words[#words + 1] = "rid=" .. id_text(values.rid) end
  if values.uri or out.uri then words[#words + 1] = plain(values.uri or out.uri) end
  if out.payload_len then words[#words + 1] = "(" .. out.payload_len .. " bytes)" end
  if out.nacked then words[#words + 1] = "wants " .. out.nacked end
  if out.seq_event and out.seq_event ~= NEXT and out.seq_event ~= FIRST then
    words[#words + 1] = "[" .. EVENTS[out.seq_event] .. "]"
  end
  return table.concat(words, " ")
end

local function bits_set(mask)
  local low, high = mask, 0
  if is_long(mask) then low, high = mask:lower(), mask:higher() end
  local count_of_bits = 0
  while low > 0 or high > 0 do
    count_of_bits = count_of_bits + low % 2 + high % 2
    low, high = math.floor(low / 2), math.floor(high / 2)
  end
  return count_of_bits
end

-- What the page says about a message and that is found in it alone.
local function contents(message, out)
  local values = message.values
  if values.payload then
    out.payload_len = #values.payload
  elseif values.samples then
    out.payload_len = 0
    for _, sample in ipairs(values.samples) do out.payload_len = out.payload_len + #sample.values.payload end
  end
  if message.kind == KIND.SYNCH and not values.count then out.outstanding = 0 end
  if message.kind == KIND.ACKNACK and values.mask then out.nacked = 1 + bits_set(values.mask) end
end

local GENERATED = {
  {"payload_len"}, {"outstanding", UInt64.new}, {"nacked"}, {"flow"}, {"epoch"}, {"usn"}, {"seq_event"}, {"gap"}, {"seq.missing", UInt64.new},
  {"since_first_us", Int64.new}, {"first_frame"}, {"ack_usn"}, {"answer_us", Int64.new}, {"delivery_us", Int64.new},
}

local function show_found(item, range, message, out)
  for _, pair in ipairs(GENERATED) do
    local name, wide = pair[1], pair[2]
    local value = out[name]
    if value ~= nil then item:add(F[name], range, wide and wide(value) or value):set_generated() end
  end
  if out.uri then item:add(F.uri, range, out.uri):set_generated() end
  if out.answer_ns then
    local seconds = math.floor(out.answer_ns / 1e9)
    item:add(F["ack.rtt"], range, NSTime.new(seconds, out.answer_ns - seconds * 1e9)):set_generated()
  end
  if EXPERTS[out.seq_event] then item:add_proto_expert_info(EXPERTS[out.seq_event]) end
  if message.kind == KIND.CLOSE and message.values.reason ~= 0 then item:add_proto_expert_info(X.refused) end
end

local function show_message(tree, tvb, begin, message, out)
  local range, head = tvb(begin + message.at, message.size), tvb(begin + message.at, 1)
  local item = tree:add(message.row.marker and F.marker or F.kind, range, message.kind)
  item:set_text(title(message, out))
  show_flags(item, head, message)
  if message.row.marker then
    show_parts(item, tvb, begin, message, "marker.")
    return
  end
  if SOLICITS[message.kind] then item:add(F.solicit, head, has(message.flags, 0x20)) end
  if ALWAYS_RELIABLE[message.kind] then
    item:add(F.reliable, head, true):set_generated()
  elseif SOLICITS[message.kind] then
    item:add(F.reliable, head, has(message.flags, 0x40))
  end
  if ON_CONDUITS[message.kind] then item:add(F.conduit, head, message.conduit):set_generated() end
  show_named_flags(item, head, message, "")
  show_parts(item, tvb, begin, message, "")
  show_found(item, range, message, out)
end

local function show_fault(tree, tvb, begin, size, wrong, cut)
  local range = tvb(begin + math.min(wrong.at, size), math.max(size - wrong.at, 0))
  local item = tree:add(F.fault, range, wrong.rule)
  item:append_text(": " .. RULES[wrong.rule])
  item:add(F["fault.at"], range, wrong.at)
  item:add_proto_expert_info(cut and wrong.rule == "CUT" and X.truncated or X.malformed)
end

-- The column: messages of one kind in a row are one entry, and there are four entries at most.
local GROUPS_MAX = 4

local function info_of(found, outs, wrong)
  local groups = {}
  for i, message in ipairs(found) do
    local last = groups[#groups]
    if last and last.kind == message.kind then
      last.count = last.count + 1
    elseif not message.row.marker then -- what a marker says is said of the messages behind it
      groups[#groups + 1] = {kind = message.kind, count = 1, text = title(message, outs[i])}
    end
  end
  local texts = {}
  for i = 1, math.min(#groups, GROUPS_MAX) do
    local group = groups[i]
    texts[i] = (group.count > 1 and group.count .. " x " or "") .. group.text
  end
  if #groups > GROUPS_MAX then texts[#texts + 1] = "..." end
  if wrong then texts[#texts + 1] = "[" .. wrong.rule .. "]" end
  return table.concat(texts, ", ")
end

-- packets ----------------------------------------------------------------------------------------------------------------

pyddsi.prefs.ports = Pref.range("Ports", "7447", "Well-known ports, UDP and TCP", 65535)
pyddsi.prefs.groups = Pref.string("Groups", "", "Multicast addresses whose datagrams are ours on any port, with commas between")
pyddsi.prefs.seq_bits = Pref.uint("Bits of sequence numbers", 0, "7 to 56; 0: as each session announces")

local ports, groups = {}, {}
local known, ways, numeric, named

function pyddsi.init()
  senders, flows, named_last, calls, known, ways, numeric, named = {}, {}, {}, {}, {}, {}, {}, {}
end

local function ports_of(text)
  local set = {}
  for first, last in text:gmatch("(%d+)%-?(%d*)") do
    for port = tonumber(first), tonumber(last) or tonumber(first) do set[port] = true end
  end
  return set
end

-- An address as text, the same all the time. Wireshark may begin to show it by a name in the middle of a file, when its question
-- has been answered.
local function text_of(address)
  local text = tostring(address)
  if text:find("^[%d.]+$") or text:find(":", 1, true) then
    numeric[text] = numeric[text] or address
    return text
  end
  if not named[text] then
    named[text] = text
    for known_as, one in pairs(numeric) do
      if one == address then named[text] = known_as end
    end
  end
  return named[text]
end

local function endpoint(address, port)
  local text = text_of(address)
  if text:find(":", 1, true) then text = "[" .. text .. "]" end
  return text .. ":" .. port
end

local function multicast(address)
  return address >= Address.ip("224.0.0.0") and address <= Address.ip("239.255.255.255")
    or address >= Address.ipv6("ff00::")
end

-- Where a packet came: see `follow`. Times are whole nanoseconds since the first frame.
local function place_of(pinfo)
  local source, target = endpoint(pinfo.src, pinfo.src_port), endpoint(pinfo.dst, pinfo.dst_port)
  local transport = pinfo.port_type == 2 and "tcp " or "udp "
  local to = not multicast(pinfo.dst) and transport .. target or nil
  return {
    source = transport .. source, target = transport .. target, to = to,
    way = source .. " → " .. (to and target or "multicast"),
    frame = pinfo.number, time = math.floor(pinfo.rel_ts * 1e9 + 0.5),
  }
end

-- Which call of the dissector this is for the frame, counted in the first pass and in every later one alike, and what is kept of it.
local function call_of(pinfo)
  local k = tonumber(pinfo.private.pyddsi_calls or "0") + 1
  pinfo.private.pyddsi_calls = tostring(k)
  local of_frame = calls[pinfo.number] or {}
  calls[pinfo.number] = of_frame
  if not pinfo.visited or not of_frame[k] then of_frame[k] = {packets = {}} end
  local call = of_frame[k]
  call.new, call.number, call.taken = not pinfo.visited, k, 0
  return call
end

-- One packet: `size` bytes of tvb from `begin`.
local function take(tvb, begin, size, pinfo, tree, call, at)
  call.taken = call.taken + 1
  local kept = call.packets[call.taken]
  if not kept then
    kept = {base_only = sender_of(at.source).base_only, outs = {}}
    call.packets[call.taken] = kept
  end
  local found, wrong = read_packet(tvb:raw(begin, size), 0, kept.base_only)
  for i, message in ipairs(found) do
    if call.new and not message.row.marker then kept.outs[i] = follow(message, at) end
    kept.outs[i] = kept.outs[i] or {}
    contents(message, kept.outs[i])
  end
  local cut = wrong and wrong.rule == "CUT" and tvb:len() < tvb:reported_len()
  if call.new and cut then
    local sender = sender_of(at.source)
    sender.cuts = sender.cuts + 1
  end
  local subtree = tree:add(pyddsi, tvb(begin, size))
  for i, message in ipairs(found) do show_message(subtree, tvb, begin, message, kept.outs[i]) end
  if wrong then show_fault(subtree, tvb, begin, size, wrong, tvb:len() < tvb:reported_len()) end
  local info = info_of(found, kept.outs, wrong)
  if call.number == 1 and call.taken == 1 then
    pinfo.cols.protocol = "pyddsi"
    pinfo.cols.info = info
  elseif call.taken <= GROUPS_MAX then
    pinfo.cols.info:append(" | " .. info)
  end
end

local function learn(pinfo, at)
  known[at.source] = true
  if at.to then
    known[at.target] = true
    if not ports[pinfo.src_port] and not ports[pinfo.dst_port] then pinfo.conversation = pyddsi end
  end
end

local function datagram(tvb, pinfo, tree)
  local call, at = call_of(pinfo), place_of(pinfo)
  if call.new then learn(pinfo, at) end
  take(tvb, 0, tvb:len(), pinfo, tree, call, at)
  return tvb:len()
end

-- A connection: frames, each a packet behind its length. A length of 0 says that from there on messages follow without any. The
-- way of a direction is "framed", "unframed" or "broken"; the first pass finds it out, and each call keeps how it began.
local FRAME_MAX = 16383

-- The next packet at `begin`: where its bytes are and how many; or nil and how many more are needed; or nil, nil and the fault.
local function next_framed(tvb, begin)
  local r = reader(tvb:raw(begin, math.min(3, tvb:len() - begin)))
  local first, second = r.bytes:byte(1, 2)
  if first >= 128 and not second then return nil, DESEGMENT_ONE_MORE_SEGMENT end
  if first >= 128 and second >= 128 then return nil, nil, {rule = "FRAME_LENGTH", at = 0} end
  local size = number(r, "NUMBER16")
  local missing = begin + r.at + size - tvb:len()
  if missing > 0 then return nil, missing end
  return begin + r.at, size
end

local function next_unframed(tvb, begin)
  local bytes = tvb:raw(begin, math.min(FRAME_MAX, tvb:len() - begin))
  local found, wrong, r = read_packet(bytes, 0, false, true)
  local last = found[#found]
  if wrong and wrong.rule ~= "CUT" then return nil, nil, wrong end
  if not wrong and last and not last.row.marker then return begin, r.at end
  if #bytes == FRAME_MAX then return nil, nil, {rule = "FRAME_LIMIT", at = 0} end
  return nil, DESEGMENT_ONE_MORE_SEGMENT
end

-- The packets of a segment. Answers where it stopped, and how many more bytes the packet there needs.
local function packets_of(tvb, pinfo, tree, call, at)
  local begin = 0
  while begin < tvb:len() and call.now ~= "broken" do -- each turn takes a byte at least
    local from, size, wrong = (call.now == "framed" and next_framed or next_unframed)(tvb, begin)
    if wrong then
      call.now = "broken"
      show_fault(tree:add(pyddsi, tvb(begin)), tvb, begin, tvb:len() - begin, wrong)
    elseif not from then
      return begin, size
    elseif size == 0 then
      call.now, begin = "unframed", from
    else
      if from > begin then tree:add(F.frame_size, tvb(begin, from - begin), size) end
      take(tvb, from, size, pinfo, tree, call, at)
      begin = from + size
    end
  end
  return begin, nil
end

local function segment(tvb, pinfo, tree)
  local call, at = call_of(pinfo), place_of(pinfo)
  if call.new then call.way = ways[at.way] or "framed" end
  call.now = call.way
  local stopped, missing = packets_of(tvb, pinfo, tree, call, at)
  if call.new then ways[at.way] = call.now end
  if missing and pinfo.can_desegment > 0 then
    pinfo.desegment_offset, pinfo.desegment_len = stopped, missing
  elseif missing then
    tree:add(pyddsi, tvb(stopped)):append_text(", a frame that is not whole")
  end
  return tvb:len()
end

-- Whether the first pass took these bytes. A conversation that was found to be ours in its middle has Wireshark ask for its
-- beginning, too, in later passes.
local function taken(pinfo)
  local k = tonumber(pinfo.private.pyddsi_calls or "0") + 1
  return calls[pinfo.number] and calls[pinfo.number][k] ~= nil
end

function pyddsi.dissector(tvb, pinfo, tree)
  if tvb:len() == 0 or (pinfo.visited and pinfo.port_type ~= 2 and not taken(pinfo)) then return 0 end
  return (pinfo.port_type == 2 and segment or datagram)(tvb, pinfo, tree)
end

-- A HELLO or OPEN that is all of a datagram, as a correct sender writes it. Nothing shorter is proof enough.
local function greets(tvb)
  local found, wrong, r = read_packet(tvb:raw(), 0, false)
  local message = found[1]
  if wrong or #found ~= 1 or r.longer or message.flags - message.flags % 64 ~= 0 then return false end
  local values = message.values
  if message.kind == KIND.OPEN then
    if message.flags == 0 or values.version ~= 1 or #values.id < 1 or #values.id > 16 or values.lease > 21474836 then
      return false
    end
  elseif message.kind ~= KIND.HELLO then
    return false
  end
  for _, locator in ipairs(values.locators) do
    local way = locator.values.text:sub(1, 4)
    if way == "udp/" or way == "tcp/" then return true end
  end
  return false
end

local function ours(tvb, pinfo)
  if ports[pinfo.src_port] or ports[pinfo.dst_port] then return true end
  for _, group in ipairs(groups) do
    if pinfo.dst == group then return true end
  end
  local at = place_of(pinfo)
  return known[at.source] or known[at.target] or greets(tvb)
end

-- Who is known later was not always known before, so in a later pass it is what the first one decided that counts.
local function heuristic(tvb, pinfo, tree)
  if tvb:len() == 0 then return false end
  if pinfo.visited and not taken(pinfo) or not pinfo.visited and not ours(tvb, pinfo) then return false end
  datagram(tvb, pinfo, tree)
  return true
end

local registered

local function register()
  local udp, tcp = DissectorTable.get("udp.port"), DissectorTable.get("tcp.port")
  if registered then
    udp:remove(registered, pyddsi)
    tcp:remove(registered, pyddsi)
  end
  registered = pyddsi.prefs.ports
  ports = ports_of(registered)
  if next(ports) then
    udp:add(registered, pyddsi)
    tcp:add(registered, pyddsi)
  else
    registered = nil
  end
end

local function settle()
  register()
  seq_bits = pyddsi.prefs.seq_bits
  if seq_bits < 7 or seq_bits > 56 then seq_bits = 0 end
  groups = {}
  for address in pyddsi.prefs.groups:gmatch("[^,%s]+") do
    local is_one, group = pcall(address:find(":", 1, true) and Address.ipv6 or Address.ip, address)
    if is_one then groups[#groups + 1] = group end
  end
end

pyddsi.prefs_changed = settle
pyddsi:register_heuristic("udp", heuristic)
settle()
