"""The roles as programs on many machines: certificates, connections, journals."""
