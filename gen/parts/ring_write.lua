local before = total
total = (total + granted) % wrap
if not moved then
  redis.call("SETRANGE", ring, "1", struct.pack(">I7I6", time, total))
else
  local function read(at)
    return pages[at] or redis.call("GETRANGE", ring, string.format("%d", at), string.format("%d", at + 6))
  end
  local new_cells = begun
  -- PART ring_gaps
  -- MANY: work begun / 4.
  if #missing == 0 then
    -- PART ring_move
  else
    -- Sections for the new windows, as if all that each of them holds had been granted now. The others keep
    -- their cells. Where they would be more than 8, or more than 10000 cells, all windows begin in this way, and
    -- those that were not asked for go.
    local cells = ""
    local kept_cells = (from - 14 - 20 * stored) / 7
    if stored + #missing > 8 or kept_cells + new_cells > 10000 then
      stored, sections, expires, missing = 0, "", 0, {}
      for i = 1, #slices do missing[i] = #slices + 1 - i end
    end
    if stored > 0 then
      local before_cells = 14 + 20 * stored
      cells = redis.call("GETRANGE", ring, string.format("%d", before_cells), string.format("%d", from - 1))
      if #cells < from - before_cells then
        return redis.error_reply("BADSTATE ring: want a total and a link for each slice")
      end
      for i = 1, #writes do
        local at, text = writes[i][1] - before_cells, writes[i][2]
        cells = string.sub(cells, 1, at) .. text .. string.sub(cells, at + #text + 1)
      end
    end
    -- PART ring_new
  end
end
