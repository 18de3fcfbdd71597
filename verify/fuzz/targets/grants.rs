#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lock_fuzz::grants(data));
