require "json"
require_relative "sluice"
url = ENV["SLUICE_REDIS"] || "redis://" + ENV["SLUICE_CLUSTER"][/[^,]+/] # its first node
sluice = Sluice.connect(url, ENV.fetch("SLUICE_SCRIPTS"))
answer = lambda do |line|
  call = JSON.parse(line)
  keys, args = call.values_at("keys", "args").map { |words| words.map { |word| [word].pack("H*") } }
  begin
    reply = sluice.call(call["script"], keys, args)
    said = { granted: reply[0].positive?, reply: reply }
  rescue StandardError => error
    refused = error.class.ancestors.any? { |kind| kind.to_s.match?(/CommandError|ReadOnlyError/) }
    said = { error: error.message, kind: refused ? "refused" : "unknown" }
  end
  $stdout.syswrite(JSON.generate({ id: call["id"] }.merge(said)) + "\n")
end
$stdin.each_line { |line| Thread.new(line, &answer) }
