"""Peer-to-peer label privacy: the protocol with real actors, and what each party could learn."""
