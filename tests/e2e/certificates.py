"""Certificates for tests, made by openssl: an authority, servers, and clients that are devices."""

import os
import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=20)


class Authority:
    """An authority in a folder of its own."""

    def __init__(self, folder, name="ca"):
        self.folder = folder
        self.certificate, self.key = self.path(f"{name}.pem"), self.path(f"{name}.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-days", "2", "-subj", f"/CN=e2e {name}", "-keyout", self.key,
                "-out", self.certificate,
                "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign")

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, alternative=None, file=None):
        """Certificate and key for a subject; `alternative` is a subjectAltName."""
        file = file or name
        certificate, key, request = (self.path(f"{file}.{end}") for end in ("pem", "key", "csr"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        extensions = self.path(f"{file}.ext")
        with open(extensions, "w", encoding="utf-8") as out:
            out.write(f"subjectAltName={alternative}\n" if alternative else "\n")
            out.write("basicConstraints=CA:FALSE\n")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
                "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", certificate)
        return certificate, key
