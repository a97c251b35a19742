require "json"
require_relative "sluice"
sluice = Sluice.connect(ENV.fetch("SLUICE_REDIS"), ENV.fetch("SLUICE_SCRIPTS"))
$stdout.sync = true
$stdin.each_line do |line|
  call = JSON.parse(line)
  keys, args = call.values_at("keys", "args").map { |words| words.map { |word| [word].pack("H*") } }
  begin
    reply = sluice.call(call["script"], keys, args)
    said = { granted: reply[0].positive?, reply: reply }
  rescue Redis::CommandError => error
    said = { error: error.message, kind: "refused" }
  rescue Redis::BaseConnectionError => error
    said = { error: error.message, kind: "unknown" }
  end
  puts JSON.generate({ id: call["id"] }.merge(said))
end
