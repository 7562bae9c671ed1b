package holdline.im;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;

/** Keeps the record in a file. A crash leaves the old record or the new one. */
public final class FileStore implements Store {
    private final File file;

    /** In this file; its folder must be there. */
    public FileStore(File file) {
        this.file = file;
    }

    @Override
    public byte[] load() throws IOException {
        return file.exists() ? Files.readAllBytes(file.toPath()) : null;
    }

    /** Writes a file beside it, which only its owner may read, and renames that one. */
    @Override
    public void save(byte[] record) throws IOException {
        File next = new File(file.getPath() + ".new");
        Files.deleteIfExists(next.toPath());
        if (!next.createNewFile()) {
            throw new IOException("another program writes " + next);
        }
        next.setReadable(false, false);
        next.setReadable(true, true);
        next.setWritable(false, false);
        next.setWritable(true, true);
        try (FileOutputStream out = new FileOutputStream(next)) {
            out.write(record);
            out.getFD().sync();
        }
        Files.move(next.toPath(), file.toPath(), StandardCopyOption.REPLACE_EXISTING,
            StandardCopyOption.ATOMIC_MOVE);
    }
}
