//! The table in the process keeps the law of directories, as every other one must.

use presence::MemoryDirectory;

#[test]
fn the_table_keeps_the_law() {
    testkit::directory::suite(&mut || {
        let table = MemoryDirectory::new();
        Box::new(move || Box::new(table.another()))
    });
}
