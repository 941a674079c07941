//! Circuits of bellpepper-core, one module for each of its versions that have users: its trait in 0.2 and in 0.4 is the same to read and
//! two different ones to a compiler.

/// Both are Montgomery limbs, those of blst.
pub(crate) fn fr(scalar: &blstrs::Scalar) -> crate::field::Fr {
    crate::field::Fr(blst::blst_fr::from(*scalar).l)
}

/// What every recorder does the same way: variables are numbered, and namespaces are not kept.
macro_rules! numbered {
    ($value:ident, $recorder:ident, $input:expr, $aux:expr) => {
        type Root = Self;

        fn alloc<F, A, AR>(&mut self, _: A, $value: F) -> Result<Variable, SynthesisError>
        where
            F: FnOnce() -> Result<Scalar, SynthesisError>,
            A: FnOnce() -> AR,
            AR: Into<String>,
        {
            let $recorder = &mut self.0;
            Ok(Variable(Index::Aux($aux)))
        }

        fn alloc_input<F, A, AR>(&mut self, _: A, $value: F) -> Result<Variable, SynthesisError>
        where
            F: FnOnce() -> Result<Scalar, SynthesisError>,
            A: FnOnce() -> AR,
            AR: Into<String>,
        {
            let $recorder = &mut self.0;
            Ok(Variable(Index::Input($input)))
        }

        fn push_namespace<NR, N>(&mut self, _: N)
        where
            NR: Into<String>,
            N: FnOnce() -> NR,
        {
        }

        fn pop_namespace(&mut self) {}

        fn get_root(&mut self) -> &mut Self {
            self
        }
    };
}

/// The modules are alike but for the crate.
macro_rules! bellpepper {
    ($(#[$doc:meta])* $module:ident, $core:ident) => {
        $(#[$doc])*
        pub mod $module {
            use std::sync::Arc;

            use $core::{
                Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable,
            };
            use blstrs::Scalar;

            use super::fr;
            use crate::circuit::{self, Constraints, Recording, Sizes, Structure};
            use crate::engine::Partition;
            use crate::field::{Field, Fr};
            use crate::key::ProvingKey;
            use crate::witness::Assignment;
            use crate::{Error, Result};

            /// Synthesises `circuit` and keeps its values and rows.
            ///
            /// # Errors
            /// [`Error::Synthesis`] with what the circuit says, [`Error::Unsatisfied`] with the first row that does not hold.
            pub fn record(circuit: impl Circuit<Scalar>) -> Result<Assignment> {
                Recorder::<true>::of(circuit, Recording::new())?.finish()
            }

            /// Synthesises `circuit` for its variables' values alone, for a key that has its matrices
            /// ([`Constraints::attach`]). Whether they satisfy it shows when the proof is verified.
            ///
            /// # Errors
            /// [`Error::Synthesis`] with what the circuit says.
            pub fn values(circuit: impl Circuit<Scalar>) -> Result<Assignment> {
                Recorder::<false>::of(circuit, Recording::new())?.into_values()
            }

            /// What a proof under `key` needs of `circuit`: values and rows, or values alone if the key has the circuit's matrices. Room
            /// is made for what `sizes` knows of, which learns from this.
            ///
            /// # Errors
            /// Those of [`record`] or [`values`].
            pub fn assignment(
                key: &ProvingKey,
                circuit: impl Circuit<Scalar>,
                sizes: &Sizes,
            ) -> Result<Assignment> {
                let room = Recording::with_room(sizes);
                let assignment = match key.matrices {
                    None => Recorder::<true>::of(circuit, room)?.finish()?,
                    Some(_) => Recorder::<false>::of(circuit, room)?.into_values()?,
                };
                sizes.learn(&assignment);
                Ok(assignment)
            }

            /// A partition for an engine, synthesised just ahead of its turn as [`assignment`] does it. Those of one circuit share
            /// `sizes`, so that room is made and host memory is asked for by what the first one took.
            pub fn partition(
                key: &Arc<ProvingKey>,
                circuit: impl Circuit<Scalar> + Send + 'static,
                sizes: &Sizes,
            ) -> Result<Partition> {
                let (key, needs, sizes) = (key.clone(), sizes.clone(), sizes.clone());
                Partition::estimated(move || needs.bytes(), move || assignment(&key, circuit, &sizes))
            }

            /// The rows' coefficients of `circuit`, whose values need not be known.
            ///
            /// # Errors
            /// [`Error::Synthesis`] with what the circuit says, [`Error::Invalid`] if it is too large.
            pub fn constraints(circuit: impl Circuit<Scalar>) -> Result<Constraints> {
                let mut shape = Shape(Structure::new());
                shape.0.input();
                circuit.synthesize(&mut shape).map_err(not_synthesised)?;
                shape.0.finish()
            }

            fn not_synthesised(error: SynthesisError) -> Error {
                Error::Synthesis(error.to_string())
            }

            /// bellman's proving assignment: a [`Recording`] as circuits see it. Without `ROWS` it keeps only values, and rows are not
            /// even asked for.
            pub struct Recorder<const ROWS: bool = true>(pub Recording);

            impl<const ROWS: bool> Recorder<ROWS> {
                fn of(
                    circuit: impl Circuit<Scalar>,
                    mut recording: Recording,
                ) -> Result<Recording> {
                    recording.input(Fr::ONE);
                    let mut recorder = Self(recording);
                    circuit.synthesize(&mut recorder).map_err(not_synthesised)?;
                    Ok(recorder.0)
                }
            }

            /// Rows, and no values.
            struct Shape(Structure);

            /// A row's sums.
            fn sides(
                a: impl FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
                b: impl FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
                c: impl FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
            ) -> [LinearCombination<Scalar>; 3] {
                let zero = LinearCombination::zero;
                [a(zero()), b(zero()), c(zero())]
            }

            fn terms(
                sum: &LinearCombination<Scalar>,
            ) -> impl Iterator<Item = (circuit::Variable, Fr)> + '_ {
                let inputs = sum.iter_inputs().map(|(i, x)| (circuit::Variable::Input(*i), fr(x)));
                inputs.chain(sum.iter_aux().map(|(i, x)| (circuit::Variable::Aux(*i), fr(x))))
            }

            impl<const ROWS: bool> ConstraintSystem<Scalar> for Recorder<ROWS> {
                numbered!(
                    value,
                    recorder,
                    recorder.input(fr(&value()?)),
                    recorder.aux(fr(&value()?))
                );

                fn new() -> Self {
                    Self(Recording::new())
                }

                fn enforce<A, AR, LA, LB, LC>(&mut self, name: A, a: LA, b: LB, c: LC)
                where
                    A: FnOnce() -> AR,
                    AR: Into<String>,
                    LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
                    LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
                    LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
                {
                    if ROWS {
                        let [a, b, c] = sides(a, b, c);
                        self.0.row(terms(&a), terms(&b), terms(&c), || name().into());
                    }
                }

                fn is_extensible() -> bool {
                    true
                }

                fn extend(&mut self, other: &Self) {
                    self.0.extend(&other.0);
                }
            }

            impl ConstraintSystem<Scalar> for Shape {
                // Values are not asked for: they may be unknown.
                numbered!(_value, recorder, recorder.input(), recorder.aux());

                fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
                where
                    A: FnOnce() -> AR,
                    AR: Into<String>,
                    LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
                    LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
                    LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
                {
                    let [a, b, c] = sides(a, b, c);
                    self.0.row(terms(&a), terms(&b), terms(&c));
                }
            }
        }
    };
}

#[cfg(feature = "bellpepper02")]
bellpepper! {
    /// Circuits of bellpepper-core 0.2: bellperson 0.26 and 0.27, Filecoin's storage-proofs 19.
    bellpepper02, bellpepper_core_02
}

#[cfg(feature = "bellpepper04")]
bellpepper! {
    /// Circuits of bellpepper-core 0.4.
    bellpepper04, bellpepper_core_04
}
