mod sluice;

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim_start_matches('-');
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut limits = sluice::Sluice::connect(&args[1], &args[2]).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let mut fields = line.split(' ');
        let name = fields.next().unwrap();
        let count = fields.next().unwrap().parse().unwrap();
        let words: Vec<Vec<u8>> = fields.map(bytes).collect();
        match limits.call(name, &words[..count], &words[count..]) {
            Ok(reply) => println!("{}", reply.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")),
            Err(error) => match (error.code(), error.detail()) {
                (Some(code), detail) => println!("!{code} {}", detail.unwrap_or_default()),
                _ => println!("!{error}"),
            },
        }
    }
}
