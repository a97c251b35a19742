require_relative "sluice"
sluice = Sluice.connect(*ARGV)
$stdout.sync = true
$stdin.each_line do |line|
  name, count, *words = line.split
  words.map! { |word| [word.delete("-")].pack("H*") }
  begin
    puts sluice.call(name, words.take(count.to_i), words.drop(count.to_i)).join(" ")
  rescue Redis::BaseError => error
    puts "!#{error.message}"
  end
end
