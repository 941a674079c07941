//! The secrets of a development key: numbers that are read read the same when written plainly.
#![no_main]

use forebay::field::Field;
use forebay::setup::Secrets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(secrets) = Secrets::from_json(data) else { return };
    let numbers = [secrets.tau, secrets.alpha, secrets.beta, secrets.delta];
    assert!(numbers.iter().all(|number| !number.is_zero()));
    let hex = numbers.map(|number| format!("{:x}", number.to_biguint()));
    let [tau, alpha, beta, delta] = &hex;
    let text = format!(r#"{{"tau":"{tau}","alpha":"{alpha}","beta":"{beta}","delta":"{delta}"}}"#);
    let again = Secrets::from_json(text.as_bytes()).expect("plain secrets are read");
    assert_eq!([again.tau, again.alpha, again.beta, again.delta], numbers);
});
