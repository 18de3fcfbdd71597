//! Tests of the choice where shops and locks are: what does not fit together is refused with the reason.

use crate::program::{program, refusal, text};
use clap::Parser;
use lock_inventory_demo::{
    cli::Cli,
    place::{Place, UsageError},
};
use lock_testkit::RedisServer;

fn place(arguments: &[&str]) -> Result<Place, UsageError> {
    Place::of(&Cli::try_parse_from(["lock-inventory-demo"].iter().chain(arguments)).unwrap())
}

#[test]
fn shops_are_tasks_unless_there_is_a_redis() {
    assert!(matches!(place(&[]), Ok(Place::Tasks { shops: 4 })));
    assert!(matches!(place(&["--shops", "7"]), Ok(Place::Tasks { shops: 7 })));
    assert!(matches!(place(&["--with-redis"]), Ok(Place::PrivateRedis { processes: 3 })));
    assert!(matches!(place(&["--with-redis", "--processes", "1"]), Ok(Place::PrivateRedis { processes: 1 })));
    let Ok(Place::Redis { processes: 3, url }) = place(&["--redis", "redis://cache"]) else {
        panic!("an address is enough")
    };
    assert_eq!(url.to_string(), "cache:6379");
}

#[test]
fn processes_without_redis_are_refused_with_the_reason() {
    assert!(matches!(place(&["--processes", "2"]), Err(UsageError::ProcessesWithoutRedis)));
    let ran = program(&["--processes", "2"]);
    assert_eq!(ran.status.code(), Some(2));
    let expected = "error: --processes needs --with-redis or --redis URL: a lock in memory excludes only the tasks of one \
                    process\n";
    assert_eq!(text(&ran.stderr), expected);
}

#[test]
fn what_contradicts_itself_is_refused() {
    assert!(matches!(place(&["--with-redis", "--shops", "4"]), Err(UsageError::ShopsWithRedis)));
    assert!(
        refusal(&["--with-redis", "--redis", "redis://:s3cret@cache"]).contains("cannot be used with"),
        "one Redis is enough"
    );
    for processes in ["0", "17"] {
        let refusal = refusal(&["--with-redis", "--processes", processes]);
        assert!(refusal.contains("is not in 1..=16"), "{refusal}");
    }
}

#[test]
fn an_address_that_is_none_is_refused_without_its_password() {
    for address in ["redis://:s3cret", "http://:s3cret@cache", ":s3cret@cache", "redis://:s3cret@cache/x", ""]
    {
        let ran = program(&["--redis", address]);
        let (out, err) = (text(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(2), "{out}{err}");
        assert!(err.starts_with("error: --redis was not given the address of a Redis\ncaused by: "), "{err}");
        assert!(!out.contains("s3cret") && !err.contains("s3cret"), "{address}: {out}{err}");
    }
    let cli = Cli::try_parse_from(["lock-inventory-demo", "--redis", "redis://:s3cret@cache"]).unwrap();
    assert!(!format!("{cli:?}{:?}", Place::of(&cli)).contains("s3cret"));
}

#[test]
fn a_redis_that_refuses_the_password_is_named_without_it() {
    let redis = RedisServer::start();
    let place = redis.url().trim_start_matches("redis://").to_owned();
    let ran = program(&["--redis", &format!("redis://somebody:s3cret@{place}"), "--orders", "1500"]);
    let (out, err) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(2), "{out}{err}");
    assert!(err.starts_with("error: could not keep locks on Redis\ncaused by: "), "{err}");
    assert!(err.contains(&place), "{err}");
    assert!(!out.contains("s3cret") && !err.contains("s3cret"), "{out}{err}");
}

#[test]
fn without_a_redis_server_the_program_says_how_to_get_one() {
    let ran = crate::program::command(&["--with-redis"]).env("PATH", "").output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    let err = text(&ran.stderr);
    assert!(err.contains("apt-get install redis-server") && err.contains("--redis"), "{err}");
    assert!(!err.contains("panicked"), "{err}");
}
