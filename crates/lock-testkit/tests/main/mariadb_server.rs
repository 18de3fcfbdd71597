//! Tests of the MariaDB server: it accepts connections, can be restarted, and leaves nothing behind.

use lock_testkit::MariaDbServer;
use std::{io::ErrorKind, net::TcpStream};

#[test]
fn restart_keeps_data_and_the_end_leaves_no_directory() {
    let server = MariaDbServer::start();
    let (address, url) = (server.address(), server.database("shop"));
    assert_eq!(url, server.database("shop"), "an existing database is no error");
    server.execute("create table shop.sku (id int); insert into shop.sku values (7)");
    server.stop();
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    server.restart();
    assert_eq!(server.address(), address);
    server.execute("select id into @id from shop.sku; do if(@id = 7, 1, (select 1 union select 2))");
    let directory = server.directory().to_owned();
    assert!(directory.exists(), "{server:?}");
    drop(server);
    assert!(!directory.exists());
}
