"""The bindings of a world with everything."""

from contract import CONTRACT

CONTRACT.install()
