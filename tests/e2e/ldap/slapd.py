"""A real `slapd` for a test: made in a temporary folder, started on free ports of loopback, paused
and killed. No service of the system is used.

`ann`, `jürgen` and `eve` have passwords; `ann` and `jürgen` are in the group `mqtt`, `ann` in the
group `admins`; the name `twin` belongs to two entries.
"""

import os
import subprocess

from certificates import Authority
from mqtt.broker import free_port
from program import Program

BASE = "dc=corp,dc=example"
READER, READS = f"cn=reader,{BASE}", "reads a lot"
PEOPLE = {"ann": "secret", "jürgen": "größer", "eve": "apple"}

CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
pidfile FOLDER/pid
TLSCACertificateFile AUTHORITY
TLSCertificateFile CERTIFICATE
TLSCertificateKeyFile KEY
REQUIRES
database mdb
directory FOLDER/data
maxsize 16777216
suffix "BASE"
rootdn "cn=root,BASE"
rootpw root
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="READER" read by self read by users search by anonymous auth by * none
"""


def person(name, password, unit="people"):
    return (f"dn: uid={name},ou={unit},{BASE}\nobjectClass: inetOrgPerson\nuid: {name}\n"
            f"cn: {name}\nsn: {name}\nmail: {name.encode('ascii', 'ignore').decode()}@corp.example\n"
            f"userPassword: {password}\n\n")


def group(name, *members):
    lines = "".join(f"member: uid={member},ou=people,{BASE}\n" for member in members)
    return (f"dn: cn={name},ou=groups,{BASE}\nobjectClass: groupOfNames\ncn: {name}\n{lines}\n")


class Slapd(Program):
    """A running server. `requires` are lines of its configuration besides."""

    COMMANDS = ("slapd", "ldapadd")

    def __init__(self, requires=""):
        super().__init__()
        self.port, self.tls_port = free_port(), free_port()
        authority = Authority(self.folder)
        self.authority = authority.certificate
        certificate, key = authority.issue("localhost", "IP:127.0.0.1")
        os.mkdir(self.path("data"))
        self.write_file("slapd.conf", CONFIGURATION, FOLDER=self.folder, READER=READER,
                        AUTHORITY=self.authority, CERTIFICATE=certificate, KEY=key,
                        REQUIRES=requires, BASE=BASE)
        self.start()
        self.add(f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: corp\n"
                 f"dc: corp\n\n" + "".join(
                     f"dn: ou={unit},{BASE}\nobjectClass: organizationalUnit\nou: {unit}\n\n"
                     for unit in ("people", "others", "groups")) +
                 f"dn: {READER}\nobjectClass: organizationalRole\n"
                 f"objectClass: simpleSecurityObject\ncn: reader\nuserPassword: {READS}\n\n" +
                 "".join(person(name, password) for name, password in PEOPLE.items()) +
                 person("twin", "one") + person("twin", "two", unit="others") +
                 group("mqtt", "ann", "jürgen") + group("admins", "ann"))

    @property
    def url(self):
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self):
        return f"ldaps://127.0.0.1:{self.tls_port}"

    def words(self):
        return ["slapd", "-d", "0", "-f", self.path("slapd.conf"), "-h",
                f"{self.url} {self.tls_url}"]

    def environment(self):
        """Its client tools verify by our authority."""
        return {**os.environ, "LDAPTLS_CACERT": self.authority}

    def run(self, command, text=""):
        """A client tool as the administrator, encrypted."""
        words = [command, "-x", "-H", self.tls_url, "-D", f"cn=root,{BASE}", "-w", "root"]
        return subprocess.run(words, input=text, env=self.environment(), capture_output=True,
                              text=True, timeout=self.START_S, check=False)

    def answers(self):
        return self.run("ldapwhoami").returncode == 0

    def add(self, text):
        done = self.run("ldapadd", text)
        assert done.returncode == 0, done.stderr
