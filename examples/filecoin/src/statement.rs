//! One statement of Filecoin as storage-proofs makes it: the circuits of its partitions, and the verifier of their proofs.

use anyhow::{Result, ensure};
use bellperson::Circuit;
use bellperson::groth16::{Proof, VerifyingKey, prepare_verifying_key};
use blstrs::{Bls12, Scalar};
use storage_proofs_core::compound_proof::{CircuitComponent, CompoundProof, PublicParams};
use storage_proofs_core::multi_proof::MultiProof;
use storage_proofs_core::parameter_cache::{ParameterSetMetadata, parameter_id};
use storage_proofs_core::proof::ProofScheme;

/// Circuits that share a key, and who accepts their proofs.
pub struct Statement<C> {
    /// What it is called in messages and traces.
    pub label: &'static str,
    /// The name of the key's file, as storage-proofs forms it: `v28-...-SHA256.params`.
    pub params: String,
    /// The circuit without a witness, which the key is made from.
    pub blank: C,
    /// One circuit a partition, in order, each with its witness.
    pub circuits: Vec<C>,
    /// Who accepts the proofs.
    pub verifier: Verifier,
}

/// Knows the statement's public side, and accepts proofs of it.
pub struct Verifier(Accepts);

type Accepts = Box<dyn Fn(Vec<Proof<Bls12>>, &VerifyingKey<Bls12>) -> Result<bool>>;

impl<C> Statement<C> {
    /// What storage-proofs' own `CompoundProof::prove_with_vanilla` would prove, short of the proofs: the circuits from the
    /// vanilla proofs of all partitions, which are checked first.
    ///
    /// # Errors
    /// If a vanilla proof does not hold, or storage-proofs refuses the inputs.
    pub fn new<P, S>(
        label: &'static str,
        public_params: PublicParams<'static, S>,
        public_inputs: S::PublicInputs,
        vanilla_proofs: &[S::Proof],
        requirements: S::Requirements,
    ) -> Result<Self>
    where
        P: CompoundProof<'static, S, C>,
        S: ProofScheme<'static> + 'static,
        S::Proof: Sync + Send,
        S::PublicParams: ParameterSetMetadata + Sync + Send,
        S::PublicInputs: Clone + Sync,
        C: Circuit<Scalar> + CircuitComponent + Send,
    {
        let params = &public_params.vanilla_params;
        ensure!(
            S::verify_all_partitions(params, &public_inputs, vanilla_proofs)?,
            "{label}: the vanilla proofs do not hold"
        );
        let circuit = |(k, vanilla_proof)| {
            let private = C::ComponentPrivateInputs::default();
            P::circuit(&public_inputs, private, vanilla_proof, params, Some(k))
        };
        let circuits = vanilla_proofs.iter().enumerate().map(circuit).collect::<Result<_>>()?;
        let (blank, params) =
            (P::blank_circuit(params), parameter_id(&P::cache_identifier(params)));
        let accepts = move |proofs, key: &VerifyingKey<Bls12>| {
            let key = prepare_verifying_key(key);
            let proof = MultiProof::new(proofs, &key);
            P::verify(&public_params, &public_inputs, &proof, &requirements)
        };
        Ok(Self { label, params, blank, circuits, verifier: Verifier(Box::new(accepts)) })
    }
}

impl Verifier {
    /// Whether storage-proofs accepts `proofs`, one a partition in order, as a multi-proof, for which it asks bellperson. The
    /// public inputs are made from the statement, not taken from the circuits.
    ///
    /// # Errors
    /// If there is not one proof a partition, or the key is for another number of public inputs.
    pub fn accepts(&self, proofs: Vec<Proof<Bls12>>, key: &VerifyingKey<Bls12>) -> Result<bool> {
        (self.0)(proofs, key)
    }
}
