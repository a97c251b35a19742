mod sluice;

fn words(list: &str) -> Vec<Vec<u8>> {
    let byte = |digits: &str| u8::from_str_radix(digits, 16).unwrap();
    let bytes = |hex: &str| (0..hex.len()).step_by(2).map(|i| byte(&hex[i..i + 2])).collect();
    list.split('"').skip(1).step_by(2).map(bytes).collect()
}

fn main() {
    let setting = |name| std::env::var(name).unwrap();
    let mut limits = sluice::Sluice::new(&setting("SLUICE_REDIS"), &setting("SLUICE_SCRIPTS")).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap(); // {"id":1,"script":"list_log_v1",..,"keys":["736c.."],"args":[]}
        let (id, rest) = line[6..].split_once(",\"script\":\"").unwrap();
        let (name, rest) = rest.split_once('"').unwrap();
        let (keys, args) = rest.split_once("\"keys\":").unwrap().1.split_once("\"args\":").unwrap();
        match limits.call(name, &words(keys), &words(args)) {
            Ok(reply) => println!("{{\"id\":{id},\"granted\":{},\"reply\":{reply:?}}}", reply[0] > 0),
            Err(error) => {
                let kind = if error.code().is_some() { "refused" } else { "unknown" };
                let text = format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default());
                println!("{{\"id\":{id},\"error\":{text:?},\"kind\":\"{kind}\"}}");
            }
        }
    }
}
